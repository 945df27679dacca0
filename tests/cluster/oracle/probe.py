#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""probe.py FOLDER: writes the actual resources of one task of a step as JSON to FOLDER/RANK."""
import errno
import glob
import json
import mmap
import os
import sys

MEBIBYTE = 1 << 20


def opens(path):
    """Without a driver an allowed open fails with ENXIO and a denied one with EPERM."""
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return error.errno == errno.ENXIO
    return True


def instances(minor):
    """The numbers of the MIG instances into which a GPU is split."""
    return sorted(int(path.rsplit("/gi", 1)[1]) for path in glob.glob(f"/proc/driver/nvidia/capabilities/gpu{minor}/mig/gi*"))


def opens_instance(minor, instance):
    for access in ("access", "ci0/access"):
        with open(f"/proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{instance}/{access}") as file:
            number = int(file.readline().split()[1])
        if not opens(f"/dev/nvidia-caps/nvidia-cap{number}"):
            return False
    return True


def gpus_of_node():
    """The devices that Slurm allocates: whole GPUs, or the MIG instances of each. "name" is "pci" plus the instance."""
    gpus = []
    for path in glob.glob("/proc/driver/nvidia/gpus/*/information"):
        with open(path) as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
        minor, pci = int(fields["Device Minor"]), path.split("/")[-2]
        gpu = {"name": pci, "pci": pci, "minor": minor, "instance": 0, "uuid": fields["GPU UUID"].strip(),
               "opens": opens(f"/dev/nvidia{minor}"), "domain": domain_of_device(pci)}
        gpus += [gpu | {"name": f"{pci}/{instance}", "instance": instance, "opens": gpu["opens"] and opens_instance(minor, instance)}
                 for instance in instances(minor)] or [gpu]
    return sorted(gpus, key=lambda gpu: (gpu["pci"], gpu["instance"]))


def domain_of_device(pci):
    """None for a fake GPU that is not in sysfs."""
    try:
        with open(f"/sys/bus/pci/devices/{pci}/numa_node") as file:
            domain = int(file.readline())
    except OSError:
        return None
    return domain if domain >= 0 else None


def cpus_by_domain():
    """Domain → the list of its CPUs."""
    domains = {}
    for path in glob.glob("/sys/devices/system/node/node*/cpulist"):
        with open(path) as file:
            domains[path.split("/")[-2].removeprefix("node")] = file.readline().strip()
    return domains


def cpus_of_step():
    """The CPUs to which the step's cgroup (version 2) confines it; None without one."""
    try:
        with open("/proc/self/cgroup") as file:
            group = next(line for line in file if line.startswith("0::")).split(":", 2)[2].strip()
        with open(f"/sys/fs/cgroup{group}/cpuset.cpus.effective") as file:
            return file.readline().strip()
    except (OSError, StopIteration):
        return None


def pages_by_domain():
    """Domain → the number of just written pages in it."""
    block = mmap.mmap(-1, 16 * MEBIBYTE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(0, len(block), mmap.PAGESIZE):
        block[page] = 1
    with open("/proc/self/numa_maps") as file:
        mappings = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in file]
    largest = max(mappings, key=lambda mapping: int(mapping.get("anon", 0)))
    return {name[1:]: int(pages) for name, pages in largest.items() if name[0] == "N" and name[1:].isdigit()}


def status_field(name):
    with open("/proc/self/status") as file:
        return next(line.split()[1] for line in file if line.startswith(name + ":"))


def memory_policy():
    with open("/proc/self/numa_maps") as file:
        words = file.readline().split()
    return words[1] + words[2] if words[2].startswith("(many)") else words[1]


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
    "pages": pages_by_domain(),
    "domains": cpus_by_domain(),
    "step_cpus": cpus_of_step(),
    "environment": {name: os.environ.get(name) for name in NAMES},
}
with open(f"{sys.argv[1]}/{found['rank']}", "w") as report:
    json.dump(found, report)
