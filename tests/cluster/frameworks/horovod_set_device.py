# SPDX-License-Identifier: Apache-2.0
# Selects a GPU like Horovod's examples: gpus[hvd.local_rank()]. Horovod's release needs PyTorch 1 or nvcc for
# its build, so this one has a PyTorch without CUDA, and the script itself queries the driver.
import ctypes
import os
import sys

import horovod.torch as hvd
import torch

hvd.init()
cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
cuda.cuInit(0)
cuda.cuDeviceGetCount(ctypes.byref(count))
gpus = list(range(count.value))
device, address = ctypes.c_int(), ctypes.create_string_buffer(16)
assert cuda.cuDeviceGet(ctypes.byref(device), gpus[hvd.local_rank()]) == 0
cuda.cuDeviceGetPCIBusId(address, 16, device)
total = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum).item()
own = os.environ.get("MUSTER_GPUS", "")
sys.stdout.write(f"{hvd.rank()} gpus={address.value.decode()}\n{hvd.rank()} own={own}\n{hvd.rank()} sum={total:.0f}\n")
hvd.shutdown()
