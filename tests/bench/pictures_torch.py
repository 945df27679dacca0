# SPDX-License-Identifier: Apache-2.0
"""pictures_torch.py FOLDER SIDE COUNT: pictures a second of processor time that torchvision's random resized crop, flip and normalization
make of JPEGs on one thread, for each way to decode them. For tests/bench/pictures."""
import pathlib
import sys
import time

import numpy
import simplejpeg
import torch
from PIL import Image
from torchvision.transforms import v2

folder, side, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
torch.manual_seed(1)
files = sorted(folder.glob("*/*.jpg"))
normalize = [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
crop = [v2.RandomResizedCrop(side, antialias=True), v2.RandomHorizontalFlip()]
on_pillow = v2.Compose([*crop, v2.PILToTensor(), *normalize])
on_tensors = v2.Compose([*crop, *normalize])


def pillow(file):
    with Image.open(file) as picture:
        return on_pillow(picture.convert("RGB"))


def simple(file, **options):
    pixels = simplejpeg.decode_jpeg(file.read_bytes(), "RGB", **options)
    return on_tensors(torch.from_numpy(numpy.ascontiguousarray(pixels)).permute(2, 0, 1))


for name, load in (("Pillow", pillow), ("simplejpeg", simple),
                   ("simplejpeg, fast", lambda file: simple(file, fastdct=True, fastupsample=True))):
    for file in files[:20]:
        load(file)
    start = time.process_time()
    for i in range(count):
        load(files[i % len(files)])
    print(f"{name}\t{count / (time.process_time() - start)}")
