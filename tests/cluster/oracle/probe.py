#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""probe.py FOLDER: what one task of a step really has, as JSON in FOLDER/RANK."""
import errno
import glob
import json
import os
import sys


def opens(path):
    """Without a driver an allowed open gives ENXIO and a denied one EPERM."""
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return error.errno == errno.ENXIO
    return True


def gpus_of_node():
    gpus = []
    for path in glob.glob("/proc/driver/nvidia/gpus/*/information"):
        with open(path) as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
        minor = int(fields["Device Minor"])
        gpus.append({"pci": path.split("/")[-2], "minor": minor, "uuid": fields["GPU UUID"].strip(),
                     "opens": opens(f"/dev/nvidia{minor}")})
    return sorted(gpus, key=lambda gpu: gpu["pci"])


def status_field(name):
    with open("/proc/self/status") as file:
        return next(line.split()[1] for line in file if line.startswith(name + ":"))


def memory_policy():
    with open("/proc/self/numa_maps") as file:
        return file.readline().split()[1]


NAMES = ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "MUSTER_GPUS", "MUSTER_CPUS", "MUSTER_MEMORY", "MUSTER_SET", "JAX_LOCAL_DEVICE_IDS",
         "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "SLURM_STEP_GPUS"]
found = {
    "rank": int(os.environ["SLURM_PROCID"]),
    "local": int(os.environ["SLURM_LOCALID"]),
    "host": os.environ["SLURMD_NODENAME"],
    "tasks": int(os.environ["SLURM_NTASKS"]),
    "gpus": gpus_of_node(),
    "cpus": status_field("Cpus_allowed_list"),
    "policy": memory_policy(),
    "environment": {name: os.environ.get(name) for name in NAMES},
}
with open(f"{sys.argv[1]}/{found['rank']}", "w") as report:
    json.dump(found, report)
