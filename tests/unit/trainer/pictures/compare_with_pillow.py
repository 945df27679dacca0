#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the pixels that muster-train reads with Pillow's. Usage: compare_with_pillow.py DECODE_PICTURE FOLDER
Exit code 77 when Pillow is missing."""
import io
import os
import random
import subprocess
import sys

try:
    from PIL import Image, ImageOps
except ImportError:
    print("Pillow is missing: on Debian install python3-pil")
    sys.exit(77)

decode, folder = sys.argv[1:]
rng = random.Random(7)
failures = 0


def scene(width, height):
    """Gradients, edges and noise."""
    low = Image.new("RGB", (max(width // 16, 2), max(height // 16, 2)))
    low.putdata([tuple(rng.randrange(256) for _ in range(3)) for _ in range(low.width * low.height)])
    picture = low.resize((width, height), Image.BICUBIC)
    for _ in range(6):
        x, y = rng.randrange(width), rng.randrange(height)
        picture.paste(tuple(rng.randrange(256) for _ in range(3)), (x, y, min(x + width // 5 + 1, width), min(y + height // 7 + 1, height)))
    return picture


def read(path, *arguments):
    got = subprocess.run([decode, path, *map(str, arguments)], capture_output=True, timeout=60, check=False)
    if got.returncode != 0:
        raise RuntimeError(got.stderr.decode())
    return Image.open(io.BytesIO(got.stdout))


def compare(name, ours, theirs, most=0):
    global failures
    if ours.size != theirs.size:
        worst = f"size {ours.size}, Pillow has {theirs.size}"
        bad = True
    else:
        a, b = ours.tobytes(), theirs.tobytes()
        worst = max(map(abs, (x - y for x, y in zip(a, b))), default=0)
        bad = worst > most
    failures += bad
    print(f"{'FAILED ' if bad else ''}{name}: largest difference {worst}")


def save(name, picture, **options):
    path = os.path.join(folder, name)
    picture.save(path, **options)
    return path


def exif(orientation):
    data = Image.Exif()
    data[0x112] = orientation
    return data.tobytes()


def upright(path):
    return ImageOps.exif_transpose(Image.open(path)).convert("RGB")


for width, height in ((97, 61), (64, 64), (1, 1), (17, 200)):
    base = scene(width, height)
    files = [save(f"{width}-{s}-{q}-{p}.jpg", base, quality=q, subsampling=s, progressive=p) for s in (0, 1, 2) for q in (40, 92) for p in (False, True)]
    files += [save(f"{width}-grey.jpg", base.convert("L")), save(f"{width}-cmyk.jpg", base.convert("CMYK"))]
    files += [save(f"{width}-restarts.jpg", base, restart_marker_blocks=2)]
    files += [save(f"{width}-turned{o}.jpg", base, exif=exif(o)) for o in range(1, 9)]
    files += [save(f"{width}-turned{o}.png", base, exif=exif(o)) for o in (1, 6)]
    files += [save(f"{width}.png", base), save(f"{width}-palette.png", base.quantize(37)), save(f"{width}-four.png", base.quantize(9), bits=4)]
    files += [save(f"{width}-black-white.png", base.convert("1")), save(f"{width}-grey.png", base.convert("L"))]
    alpha = base.convert("RGBA")
    alpha.putalpha(base.convert("L"))
    files += [save(f"{width}-alpha.png", alpha), save(f"{width}-grey-alpha.png", alpha.convert("LA"))]
    files += [save(f"{width}-transparent.png", base.quantize(30), transparency=3)]
    for path in files:
        compare(os.path.basename(path), read(path), upright(path))
    # Pillow keeps the 16 bits of grey; the higher byte is what it keeps of colours.
    grey = base.convert("L")
    wide = Image.new("I", grey.size)
    wide.putdata([value * 256 + 99 for value in grey.getdata()])
    path = save(f"{width}-wide.png", wide.convert("I;16") if hasattr(wide, "convert") else wide)
    compare(os.path.basename(path), read(path), grey.convert("RGB"))

base = scene(333, 251)
path = save("scaled.jpg", base, quality=90)
for shrink in (2, 4, 8):
    draft = Image.open(path)
    draft.draft("RGB", (333 // shrink, 251 // shrink))
    compare(f"at 1/{shrink}", read(path, shrink), draft.convert("RGB"))
whole = Image.open(path).convert("RGB")
for _ in range(60):
    left, top = rng.randrange(330), rng.randrange(248)
    box = (left, top, rng.randrange(left + 1, 334), rng.randrange(top + 1, 252))
    side = rng.choice((1, 7, 32, 64, 224))
    compare(f"box {box} at {side}", read(path, 1, side, *box), whole.crop(box).resize((side, side), Image.BILINEAR))
sys.exit(failures > 0)
