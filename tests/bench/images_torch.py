#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""images_torch.py [NETWORK] [BATCH] [SIZE]: training steps of PyTorch on the trainer's image networks, images/s by the wall clock and
by processor time: eager in channels-last order and torch.compile, in float32 and with bfloat16 autocast, on OMP_NUM_THREADS threads."""
import importlib.util
import pathlib
import resource
import sys
import time

import torch
import torch.nn.functional as F

name = sys.argv[1] if len(sys.argv) > 1 else "resnet56"
batch = int(sys.argv[2]) if len(sys.argv) > 2 else 128
size = int(sys.argv[3]) if len(sys.argv) > 3 else 32
kinds = sys.argv[4].split(",") if len(sys.argv) > 4 else ["eager", "compile"]


def networks():
    path = pathlib.Path(__file__).parents[1] / "unit/trainer/models/fixtures/torch_image_networks.py"
    spec = importlib.util.spec_from_file_location("networks", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


module = networks()
blocks = {"resnet20": 3, "resnet56": 9, "resnet110": 18}


def make():
    if name in blocks:
        return module.ResnetCifar(blocks[name], 10)
    return module.Resnet50(10) if name == "resnet50" else module.Mobilenet(1.0, 10)


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


import os
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
for kind in kinds:
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(1)
        model = make().to(memory_format=torch.channels_last)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        images = torch.randn(batch, 3, size, size).to(memory_format=torch.channels_last)
        labels = torch.randint(0, 10, (batch,))
        run = torch.compile(model) if kind == "compile" else model

        def step():
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
                loss = F.cross_entropy(run(images), labels)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss.item()

        for _ in range(3):
            step()
        best_wall = best_processor = 1e9
        for _ in range(4):
            wall, processor = time.perf_counter(), processor_seconds()
            for _ in range(4):
                step()
            best_wall = min(best_wall, (time.perf_counter() - wall) / 4)
            best_processor = min(best_processor, (processor_seconds() - processor) / 4)
        print(f"{name} {batch} x {size} {kind} {str(dtype)[6:]}: {batch / best_wall:.0f} images/s, "
              f"{batch / best_processor * torch.get_num_threads():.0f} by processor time", flush=True)
