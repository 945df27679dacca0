# SPDX-License-Identifier: Apache-2.0
"""environment_muster.py lightning|accelerate: either starts from the variables of muster.torch.set_environment(). Prints one line per rank."""
import os
import sys

import torch

import muster.torch


def print_sum(rank, size):
    total = torch.tensor([float(rank)])
    torch.distributed.all_reduce(total)
    os.write(1, f"rank {rank} of {size} sum {int(total)}\n".encode())


def run_lightning():
    import lightning

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))

        def training_step(self, batch, _):
            return (self.weight * batch).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

        def on_train_end(self):
            print_sum(self.global_rank, self.trainer.world_size)

    lightning.Trainer(accelerator="cpu", devices=job.local_size, num_nodes=job.host_count, strategy="ddp", max_steps=1, logger=False,
                      enable_checkpointing=False, enable_progress_bar=False).fit(Model(), torch.utils.data.DataLoader(torch.ones(64, 2)))


def run_accelerate():
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    print_sum(accelerator.process_index, accelerator.num_processes)
    accelerator.end_training()


job = muster.torch.set_environment()
run_lightning() if sys.argv[1] == "lightning" else run_accelerate()
