#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torchvision_compare.py MUSTER_TRAIN: an exported resnet50 in torchvision's resnet50 has the loss and the right predictions that
`muster-train evaluate` prints."""
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy
import torch
import torchvision
from safetensors.torch import load_file
from torchvision.transforms.v2.functional import normalize

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of CIFAR-10's pixels, by which muster-train normalizes


def evaluate_with_torchvision(weights, pictures):
    model = torchvision.models.resnet50(num_classes=10)
    model.load_state_dict(load_file(weights))  # raises when a name or a shape differs
    model.eval()
    records = torch.from_numpy(numpy.fromfile(pictures, dtype=numpy.uint8)).reshape(-1, 3073)
    labels, pixels = records[:, 0].long(), records[:, 1:].reshape(-1, 3, 32, 32).float() / 255
    with torch.no_grad():
        outputs = model(normalize(pixels, MEAN, DEVIATION))
    return torch.nn.functional.cross_entropy(outputs, labels).item(), int((outputs.argmax(1) == labels).sum())


def main():
    muster_train = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as folder:
        def run(*arguments):
            return subprocess.run([muster_train, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout

        run("make-data", "cifar", "--output=data", "--train=200", "--held-out=100")
        run("--model=resnet50", "--data=data", "--device=cpu", "--batch=8", "--steps=4", "--no-mfu", "--no-tensorboard", "--output=out")
        run("export", "out", "--format=safetensors", "--output=weights.safetensors")
        printed = run("evaluate", "out", "--data=data", "--device=cpu")
        loss, right = float(re.search(r"loss ([0-9.]+)", printed)[1]), int(re.search(r"\((\d+) of 100 right", printed)[1])
        theirs, theirs_right = evaluate_with_torchvision(f"{folder}/weights.safetensors", f"{folder}/data/test_batch.bin")
    print(f"muster-train {loss} with {right} right, torchvision {theirs} with {theirs_right} right")
    if abs(loss - theirs) > 1e-4 * loss or right != theirs_right:
        sys.exit("torchvision_compare: they differ")


main()
