# SPDX-License-Identifier: Apache-2.0
"""For tests/bench/join: PyTorch's gloo process group below srun, join_gloo.py ADDRESS PORT, from the end of the imports."""
import os
import sys
import time

import torch.distributed

begun = time.monotonic_ns()
torch.distributed.init_process_group(
    "gloo",
    init_method=f"tcp://{sys.argv[1]}:{sys.argv[2]}",
    rank=int(os.environ["SLURM_PROCID"]),
    world_size=int(os.environ["SLURM_NTASKS"]),
)
print("ready", time.monotonic_ns() - begun, flush=True)
torch.distributed.destroy_process_group()
