# SPDX-License-Identifier: Apache-2.0
# A plain Lightning script: Trainer(devices=…, num_nodes=…), the rest from Slurm. Usage: lightning_fit.py
# DEVICES NODES
import sys

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy

from chosen_gpus import print_rank


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def training_step(self, batch, _):
        return (self.weight * batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def on_train_end(self):
        total = torch.tensor([float(self.global_rank)])
        torch.distributed.all_reduce(total)
        print_rank(self.global_rank, [self.device.index], total.item())


trainer = lightning.Trainer(
    accelerator="gpu",
    devices=int(sys.argv[1]),
    num_nodes=int(sys.argv[2]),
    strategy=DDPStrategy(process_group_backend="gloo"),  # NCCL needs a GPU
    max_steps=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(64, 2), batch_size=2))
