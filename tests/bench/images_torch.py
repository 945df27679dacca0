#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""images_torch.py NETWORK BATCH THREADS: training steps of PyTorch on one of the trainer's networks on images, images/s: eager, in
channels-last order, and with torch.compile, each in float32 and with bfloat16 autocast. One thread counts processor time.
Below torchrun the ranks train with DistributedDataParallel and gloo, and count the images of all."""
import importlib.util
import os
import pathlib
import resource
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

name, batch, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ranks = int(os.environ.get("WORLD_SIZE", "1"))


class MnistCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.dropout = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5), nn.Dropout2d()
        self.fc1, self.fc2 = nn.Linear(320, 50), nn.Linear(50, 10)

    def forward(self, x):
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.dropout(self.conv2(x)), 2))
        return self.fc2(F.dropout(F.relu(self.fc1(x.flatten(1)))))


def make():
    if name == "mnist-cnn":
        return MnistCnn()
    path = pathlib.Path(__file__).parents[1] / "unit/trainer/models/fixtures/torch_image_networks.py"
    spec = importlib.util.spec_from_file_location("torch_image_networks", path)
    networks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(networks)
    blocks = {"resnet20": 3, "resnet56": 9}
    return networks.ResnetCifar(blocks[name], 10) if name in blocks else networks.Mobilenet(1.0, 10)


def seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime if threads * ranks == 1 else time.monotonic()


def best_step(model, images, labels, dtype, steps):
    """Seconds of the fastest of four runs of steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    best = float("inf")
    for run in range(5):  # the first one warms up
        before = seconds()
        for _ in range(steps):
            step()
        if run > 0:
            best = min(best, (seconds() - before) / steps)
    return best


torch.set_num_threads(threads)
if ranks > 1:
    torch.distributed.init_process_group("gloo")
shape = (batch, 1, 28, 28) if name == "mnist-cnn" else (batch, 3, 32, 32)
for kind in "eager", "channels-last", "compile":
    for dtype in torch.float32, torch.bfloat16:
        torch.manual_seed(1)
        order = torch.contiguous_format if kind == "eager" else torch.channels_last
        model, images = make().to(memory_format=order), torch.randn(shape).to(memory_format=order)
        labels = torch.randint(0, 10, (batch,))
        if ranks > 1:
            model = nn.parallel.DistributedDataParallel(model)
        compiled = torch.compile(model) if kind == "compile" else model
        step_seconds = best_step(compiled, images, labels, dtype, 60 if name == "mnist-cnn" else 4)
        if ranks == 1 or torch.distributed.get_rank() == 0:
            print(f"{name} {batch} torch {kind} {str(dtype)[6:]}: {batch * ranks / step_seconds:.0f} images/s", flush=True)
if ranks > 1:
    torch.distributed.destroy_process_group()
