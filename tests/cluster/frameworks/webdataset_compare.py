#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the samples that muster-train finds in tar shards with those of webdataset, which also writes some of the shards.
Usage: webdataset_compare.py PRINT_SHARD FOLDER"""
import io
import os
import random
import subprocess
import sys
import tarfile

import webdataset

print_shard, folder = sys.argv[1:]
rng = random.Random(5)


def picture():
    return rng.randbytes(rng.choice((0, 1, 511, 512, 513, 3000)))


def samples(count):
    """Keys of many forms; the longest need an extended header."""
    for i in range(count):
        key = rng.choice(("", "a/", "with.dot/", "deep/" * 60, "ünïcode/")) + f"{i:05d}" + rng.choice(("", "-x", " blank", "n" * 130))
        yield {"__key__": key, rng.choice(("jpg", "jpeg", "png")): picture(), "cls": str(rng.randrange(1000)).encode(), "json": b"{}"}


def write_by_webdataset(path, **options):
    with webdataset.TarWriter(path, **options) as writer:
        for sample in samples(60):
            writer.write(sample)


def write_by_tarfile(path, form):
    with tarfile.open(path, "w", format=form) as archive:
        folder_entry = tarfile.TarInfo("folder")
        folder_entry.type = tarfile.DIRTYPE
        archive.addfile(folder_entry)
        for sample in samples(60):
            if form == tarfile.USTAR_FORMAT and len(sample["__key__"].encode()) > 90:
                continue
            parts = [(end, content) for end, content in sample.items() if end != "__key__"]
            rng.shuffle(parts)
            for end, content in parts:
                entry = tarfile.TarInfo(f"{sample['__key__']}.{rng.choice((end, end.upper()))}")
                entry.size, entry.mtime = len(content), rng.random() * 1e9
                archive.addfile(entry, io.BytesIO(content))


def theirs(path):
    for sample in webdataset.WebDataset(path, shardshuffle=False):
        content = next(sample[end] for end in ("jpg", "jpeg", "png") if end in sample)
        yield sample["__key__"], int(sample["cls"]), content.hex()


def ours(path):
    for line in subprocess.run([print_shard, path], check=True, capture_output=True, text=True, encoding="utf-8").stdout.splitlines():
        key, label, content = line.split("\t")
        yield key, int(label), content


shards = {"webdataset": write_by_webdataset, "webdataset-modes": lambda path: write_by_webdataset(path, mode=0o644, user="u", group="g")}
for name, form in (("pax", tarfile.PAX_FORMAT), ("gnu", tarfile.GNU_FORMAT), ("ustar", tarfile.USTAR_FORMAT)):
    shards[name] = lambda path, form=form: write_by_tarfile(path, form)
for name, write in shards.items():
    path = os.path.join(folder, f"{name}.tar")
    write(path)
    expected, found = list(theirs(path)), list(ours(path))
    assert expected == found, (name, [pair for pair in zip(expected, found) if pair[0] != pair[1]][:1], len(expected), len(found))
    print(f"{name}: {len(found)} samples as webdataset {webdataset.__version__} has them")
    assert len(found) > 20
