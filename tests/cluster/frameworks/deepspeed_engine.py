# SPDX-License-Identifier: Apache-2.0
# A plain DeepSpeed script: initialize() finds the ranks and the GPU. Gloo, because NCCL needs a GPU.
import argparse

import deepspeed
import torch

from chosen_gpus import print_rank

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)  # passed by DeepSpeed's launcher
parser.parse_args()
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=torch.nn.Linear(2, 2),
    model_parameters=None,
    config={
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": 1},
    },
)
total = torch.tensor([float(engine.global_rank)])
torch.distributed.all_reduce(total)
print_rank(engine.global_rank, [engine.device.index or torch.cuda.current_device()], total.item())
torch.distributed.destroy_process_group()
