#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""For tests/bench/cpu_adam: cpu_adam_torch.py torch|deepspeed PARAMETERS THREADS FILE makes one step of the optimizer on the CPU for each line
on standard input, and prints its seconds; at the end it writes the first parameters to FILE. bench_cpu_adam starts from the same values."""
import os
import sys
import time

os.environ["DS_ACCELERATOR"] = "cpu"
kind, count, threads, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

import torch  # noqa: E402


def cycle(length):
    """The values of bench_cpu_adam, which divides in float, too."""
    values = torch.arange(length, dtype=torch.float32) / length - 0.5
    return values.repeat(count // length + 1)[:count].clone()


torch.set_num_threads(threads)
parameter = torch.nn.Parameter(cycle(1021))
parameter.grad = cycle(509)
settings = {"lr": 1e-3, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}
if kind == "deepspeed":
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    optimizer = DeepSpeedCPUAdam([parameter], adamw_mode=True, **settings)
else:
    optimizer = torch.optim.AdamW([parameter], fused=True, **settings)
for _ in sys.stdin:
    start = time.perf_counter()
    optimizer.step()
    print(f"{time.perf_counter() - start:.6f}", flush=True)
parameter.detach()[:4096].numpy().tofile(path)
