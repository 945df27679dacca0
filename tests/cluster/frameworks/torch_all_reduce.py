# SPDX-License-Identifier: Apache-2.0
# A plain PyTorch program: everything comes from the environment. Prints one line per rank.
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
total = torch.tensor([float(rank)])
dist.all_reduce(total)
print(f"torch {torch.__version__} rank {rank} of {size} sum {total.item():.0f}", flush=True)
dist.destroy_process_group()
