# SPDX-License-Identifier: Apache-2.0
# Selects a GPU like PyTorch's tutorials: number LOCAL_RANK, or numbers 2*LOCAL_RANK and 2*LOCAL_RANK+1 for a
# model on two GPUs. Usage: torch_set_device.py [GPUS-A-RANK]. Gloo, because NCCL needs a GPU.
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from chosen_gpus import print_rank

each = int(sys.argv[1]) if len(sys.argv) > 1 else 1
local_rank = int(os.environ["LOCAL_RANK"])
indexes = [each * local_rank + i for i in range(each)]
torch.cuda.set_device(indexes[0])
dist.init_process_group("gloo")
model = torch.nn.Linear(2, 2).to(indexes[0])
DistributedDataParallel(model, device_ids=indexes if each == 1 else None)
total = torch.tensor([float(dist.get_rank())]).cuda(indexes[-1])
dist.all_reduce(total)
print_rank(dist.get_rank(), indexes, total.item())
dist.destroy_process_group()
