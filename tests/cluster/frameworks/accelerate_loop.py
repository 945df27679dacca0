# SPDX-License-Identifier: Apache-2.0
# A plain accelerate script: Accelerator() finds the ranks and the GPU. Gloo, because NCCL needs a GPU.
import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs

from chosen_gpus import print_rank

accelerator = Accelerator(kwargs_handlers=[InitProcessGroupKwargs(backend="gloo")])
model = torch.nn.Linear(2, 2)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
total = torch.tensor([float(accelerator.process_index)])
torch.distributed.all_reduce(total)
print_rank(accelerator.process_index, [accelerator.device.index], total.item())
accelerator.end_training()
