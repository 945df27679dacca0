#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the GPUs that a fatbin has code for. Fails if one of those named is missing.

The layout is that of fatbinary(1)'s output from CUDA 11 to 13: a header, then entries, each with its own header.
"""

import argparse
import pathlib
import struct
import sys

MAGIC = 0xBA55ED50
PTX, CUBIN = 1, 2


def entries(data):
    """Yields (kind, number of the architecture) of each entry."""
    magic, _, header_bytes, size = struct.unpack_from("<IHHQ", data)
    if magic != MAGIC:
        raise ValueError("not a fatbin")
    at = header_bytes
    while at < header_bytes + size:
        kind, _, header_bytes_of_entry, size_of_entry = struct.unpack_from("<HHIQ", data, at)
        (architecture,) = struct.unpack_from("<I", data, at + 28)
        yield kind, architecture
        at += header_bytes_of_entry + size_of_entry


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fatbin", type=pathlib.Path)
    parser.add_argument("expected", nargs="+", help="sm_90 for a cubin, compute_80 for PTX")
    arguments = parser.parse_args()
    names = {PTX: "compute", CUBIN: "sm"}
    found = {f"{names[kind]}_{architecture}" for kind, architecture in entries(arguments.fatbin.read_bytes())}
    print(f"{arguments.fatbin.name} has {' '.join(sorted(found))}")
    missing = [name for name in arguments.expected if name not in found]
    if missing:
        sys.exit(f"{arguments.fatbin.name} lacks {' '.join(missing)}")


if __name__ == "__main__":
    main()
