# SPDX-License-Identifier: Apache-2.0
# A plain Horovod program under its MPI controller. Prints one line per rank.
import horovod
import horovod.torch as hvd
import torch

hvd.init()
total = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum)
controller = "mpi" if hvd.mpi_enabled() and hvd.mpi_built() else "gloo"
print(f"horovod {horovod.__version__} ({controller}) rank {hvd.rank()} of {hvd.size()} sum {total.item():.0f}", flush=True)
hvd.shutdown()
