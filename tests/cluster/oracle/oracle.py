#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts random steps with --muster and again without, and checks each task's resources.

Usage (on the lab's controller): oracle.py --seed S --cases N [--only K] [--nodes N] [--job OPTION] FOLDER; all nodes see the FOLDER

The oracle uses the options, each task's observations (the device files that it can open, its variables, CPUs and memory policy), the
table that srun printed, and the resources of the same step's tasks with Slurm alone. It does not use the plugin's logic. It prints a line
for each wrong case, with the command to repeat it, and then ends with exit code 1.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 60  # for one step, on a busy machine


class Case:
    """The options of a job and of its one step. GPUS is the number of GPUs, or of MIG instances, per node of the lab."""
    GPUS = 4
    nodes_at_most = 2
    of_every_job = []

    def __init__(self, seed, number):
        choose = random.Random(f"{seed}.{number}")
        self.nodes = min(choose.choice([1, 1, 2]), self.nodes_at_most)
        self.per_node = choose.choice([1, 2, 2, 3, 4])
        self.tasks = self.nodes * self.per_node
        self.job = [f"-N{self.nodes}", f"--ntasks-per-node={self.per_node}"]
        self.step = []
        self.bind = None    # the user's --gpu-bind
        self.words = []
        self.overcommit = False
        self.choose_gpus(choose)
        self.choose_rest(choose)

    def choose_gpus(self, choose):
        kind = choose.choice(["per task", "per task", "gres", "gres", "per node", "total", "step's own", "tasks per gpu"])
        each = choose.choice([1, 1, 1, 2])
        while each * self.per_node > self.GPUS:
            each = 1
        count = choose.randint(self.per_node, self.GPUS)
        if kind == "per task":
            self.job.append(f"--gpus-per-task={each}")
        elif kind == "gres":
            self.job.append(f"--gres=gpu:{count}")
        elif kind == "per node":
            self.job.append(f"--gpus-per-node={count}")
        elif kind == "total":
            self.job.append(f"--gpus={self.nodes * count}")
        elif kind == "step's own":
            self.job.append(f"--gres=gpu:{self.GPUS}")
            self.step.append(f"--gpus-per-task={each}")
        else:
            self.per_node = 2 * choose.choice([1, 2])
            self.tasks = self.nodes * self.per_node
            self.job = [f"-N{self.nodes}", f"--ntasks-per-node={self.per_node}", f"--gres=gpu:{self.per_node // 2}"]
            self.words.append("tasks-per-gpu=2")
        self.kind, self.each, self.count = kind, each, count

    def choose_rest(self, choose):
        if self.kind in ("gres", "per node", "total") and choose.random() < 0.5:
            order = [choose.randrange(self.count) for _ in range(self.per_node)]
            if choose.random() < 0.7:
                order = choose.sample(range(self.count), self.per_node)
            self.bind = choose.choice(["none", "closest", "single:1", "per_task:1", "map_gpu:" + ",".join(map(str, order)),
                                       "mask_gpu:" + ",".join(hex(1 << gpu) for gpu in order)])
            self.step.append(f"--gpu-bind={self.bind}")
        if choose.random() < 0.2:
            self.step.append("--distribution=cyclic")
        if choose.random() < 0.15:
            self.step.append("--cpu-bind=none")
        if choose.random() < 0.15:
            self.step.append("--mem-bind=local")
        if choose.random() < 0.3:
            self.words.append("visible=" + choose.choice(["own", "node"]))

    def command(self, muster, folder):
        words = ",".join(["strict", "report"] + self.words) if muster else "off"
        return ["salloc", "--quiet", *self.of_every_job, *self.job, "srun", *self.step, f"--muster={words}", sys.executable, f"{HERE}/probe.py", folder]


class Step:
    """What a step printed."""

    def __init__(self, case, muster, folder):
        with tempfile.TemporaryDirectory(dir=folder) as tasks:
            try:
                done = subprocess.run(case.command(muster, tasks), capture_output=True, text=True, timeout=SECONDS)
                self.code, self.errors = done.returncode, done.stderr
            except subprocess.TimeoutExpired:
                self.code, self.errors = 124, f"did not end in {SECONDS} s"
            self.tasks = []
            for rank in sorted(os.listdir(tasks), key=int):
                with open(f"{tasks}/{rank}") as file:
                    self.tasks.append(json.load(file))

    def table(self):
        """Rank → (GPUs, CPUs, memory) of the printed table."""
        rows, titles = {}, "local rank  rank"
        inside = False
        for line in self.errors.splitlines():
            if line.startswith(titles):
                inside = True
            elif inside and re.match(r"\d+ +\d", line):
                _, ranks, gpus, cpus, memory = line.split()[:5]
                rows.update({int(rank): (gpus, cpus, memory) for rank in ranks.split(",")})
            else:
                inside = False
        return rows


def numbers(text):
    """0-2,5 and 0-6:2 → a set."""
    found = set()
    for part in filter(None, (text or "").split(",")):
        ends, _, stride = part.partition(":")
        first, _, last = ends.partition("-")
        found.update(range(int(first), int(last or first) + 1, int(stride or 1)))
    return found


def shown(task):
    """The names of the GPUs that CUDA would show this task, in its order; None when the list is invalid."""
    text = task["environment"]["CUDA_VISIBLE_DEVICES"]
    if text is None:
        return None
    by_uuid = {gpu["uuid"]: gpu["name"] for gpu in task["gpus"]}
    if text.startswith("GPU-"):
        return [by_uuid[uuid] for uuid in text.split(",")]
    # Slurm numbers the device files that the task may open, in their order; CUDA numbers whole GPUs in PCI
    # order.
    by_pci = task["environment"]["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID" and not in_instances(task)
    order = (lambda gpu: gpu["pci"]) if by_pci else (lambda gpu: (gpu["minor"], gpu["instance"]))
    openable = [gpu["name"] for gpu in sorted(task["gpus"], key=order) if gpu["opens"]]
    if not all(part.isdigit() and int(part) < len(openable) for part in text.split(",")):
        return None
    return [openable[int(part)] for part in text.split(",")]


def in_instances(task):
    return any(gpu["instance"] for gpu in task["gpus"])


def own(task):
    """The names of the task's GPUs. MUSTER_GPUS has only addresses; for MIG instances JAX_LOCAL_DEVICE_IDS has the indexes."""
    if not in_instances(task):
        return list(filter(None, (task["environment"]["MUSTER_GPUS"] or "").split(",")))
    visible = shown(task) or []
    return [visible[int(place)] for place in filter(None, (task["environment"]["JAX_LOCAL_DEVICE_IDS"] or "").split(",")) if int(place) < len(visible)]


def addresses(names):
    return list(dict.fromkeys(name.split("/")[0] for name in names))


def judge_task(case, task, alone, table, wrong):
    openable = {gpu["name"] for gpu in task["gpus"] if gpu["opens"]}
    mine, visible = own(task), shown(task)
    name = f"rank {task['rank']}"
    if in_instances(task) and shown(alone) is None and visible is None:  # --gpu-bind=none: CUDA selects an instance
        if task["environment"]["JAX_LOCAL_DEVICE_IDS"] is not None:
            wrong.append(f"{name}: JAX_LOCAL_DEVICE_IDS {task['environment']['JAX_LOCAL_DEVICE_IDS']}, and CUDA has no list")
        return None
    if not mine:
        return wrong.append(f"{name} has no GPU")
    if not set(mine) <= openable:
        wrong.append(f"{name} cannot open its own GPU {mine}")
    if visible is None or not set(mine) <= set(visible):
        wrong.append(f"{name}: CUDA_VISIBLE_DEVICES {visible} lacks its own GPU {mine}")
        return None
    if addresses(mine) != addresses(filter(None, (task["environment"]["MUSTER_GPUS"] or "").split(","))):
        wrong.append(f"{name} has {mine}, MUSTER_GPUS is {task['environment']['MUSTER_GPUS']}")
    places = ",".join(str(i) for i, gpu in enumerate(visible) if gpu in mine)
    if task["environment"]["JAX_LOCAL_DEVICE_IDS"] != places:
        wrong.append(f"{name}: JAX_LOCAL_DEVICE_IDS {task['environment']['JAX_LOCAL_DEVICE_IDS']}, its own are {places}")
    if "--cpu-bind=none" not in case.step and numbers(task["cpus"]) != numbers(task["environment"]["MUSTER_CPUS"]):
        wrong.append(f"{name} runs on CPUs {task['cpus']}, not on {task['environment']['MUSTER_CPUS']}")
    if "--mem-bind=local" not in case.step and not re.fullmatch(
            rf"prefer(=relative|=static|\(many\))?:{task['environment']['MUSTER_MEMORY'].split(',')[0]}.*", task["policy"]):
        wrong.append(f"{name}: memory policy {task['policy']}, not of domain {task['environment']['MUSTER_MEMORY']}")
    row = table.get(task["rank"])
    if row is None:
        wrong.append(f"{name} is not in the table")
    else:
        if addresses(row[0].split(",")) != addresses(mine):
            wrong.append(f"{name} has {mine}, the table has {row[0]}")
        if "--cpu-bind=none" not in case.step and numbers(row[1]) != numbers(task["cpus"]):
            wrong.append(f"{name} runs on CPUs {task['cpus']}, the table has {row[1]}")
    judge_places(case, task, name, wrong)
    judge_against_slurm(case, task, alone, name, mine, visible, wrong)
    return None


def judge_places(case, task, name, wrong):
    """Checks that memory and CPUs are local to the task's GPUs, if the machine has NUMA domains and the step has CPUs there."""
    beside = {gpu["domain"] for gpu in task["gpus"] if gpu["name"] in own(task)}
    if None in beside:
        return
    near = sum(count for domain, count in task["pages"].items() if int(domain) in beside)
    if "--mem-bind=local" not in case.step and near < 0.9 * sum(task["pages"].values()):
        wrong.append(f"{name}: pages by domain {task['pages']}, its GPUs are on {sorted(beside)}")
    cpus_beside = set().union(*(numbers(task["domains"][str(domain)]) for domain in beside))
    if "--cpu-bind=none" not in case.step and numbers(task["step_cpus"]) & cpus_beside and not numbers(task["cpus"]) <= cpus_beside:
        wrong.append(f"{name} runs on CPUs {task['cpus']} of the step's {task['step_cpus']}, local to its GPUs are {sorted(cpus_beside)}")


def judge_against_slurm(case, task, alone, name, mine, visible, wrong):
    """alone: the same task, started by Slurm alone."""
    slurms = shown(alone)
    if slurms is None:
        return
    step_gpus = {gpu["name"] for gpu in alone["gpus"] if gpu["opens"]}
    # Slurm may give one node more of a job's --gpus than another. These may be all that the node has if the binding is
    # closest, or if the task is alone on its node, which Slurm does not bind.
    may_be_all = case.kind == "total" and (case.bind == "closest" or case.per_node == 1)
    if case.bind not in (None, "none") and not may_be_all and set(slurms) < step_gpus | {"more"} and len(slurms) < case.count:
        if sorted(slurms) != sorted(mine):
            wrong.append(f"{name} has {mine} where --gpu-bind={case.bind} gives it {slurms}")
    asked = [word for word in case.words if word.startswith("visible=")]
    # Slurm does not bind a task that is alone on its node, not even to the requested number of GPUs.
    if case.per_node == 1 and case.bind == "per_task:1" and len(mine) == 1 and not asked:
        if visible != mine:
            wrong.append(f"{name} sees {visible}, and requested one GPU, which is {mine}")
        return
    if not asked and "tasks-per-gpu=2" not in case.words and len(visible) != len(slurms):
        wrong.append(f"{name} sees {len(visible)} GPUs, with Slurm alone {len(slurms)}")
    if asked == ["visible=own"] and visible != mine and sorted(visible) != sorted(mine):
        wrong.append(f"{name} sees {visible}, its own are {mine}")


def judge_node(case, tasks, wrong):
    """Checks the tasks of one node against each other."""
    if "tasks-per-gpu=2" not in case.words and case.bind in (None, "none", "per_task:1"):
        all_gpus = [gpu for task in tasks for gpu in own(task)]
        if len(all_gpus) != len(set(all_gpus)):
            wrong.append(f"two tasks of {tasks[0]['host']} have one GPU: {all_gpus}")
    lists = [shown(task) for task in tasks]
    wide = len(tasks) > 1 and all(visible and len(visible) > len(own(task)) for task, visible in zip(tasks, lists))
    if wide and any(visible != lists[0] for visible in lists):
        wrong.append(f"the tasks of {tasks[0]['host']} see different lists of GPUs")
    sizes = {len(own(task)) for task in tasks}
    for task, visible in zip(tasks, lists):
        if wide and len(sizes) == 1:
            first = next(iter(sizes)) * task["local"]
            if visible[first:first + len(own(task))] != own(task):
                wrong.append(f"rank {task['rank']}: its own GPUs {own(task)} are not at index {first} of {visible}")


def judge(case, step, alone):
    wrong = []
    if (step.code == 0) != (alone.code == 0):
        if step.code == 78 and len(re.findall("^muster: ", step.errors, re.M)) >= 1:
            return ["refused"] if needs_refusal(alone) else [f"strict refuses it: {step.errors.strip()[:300]}"]
        return [f"exit code {step.code}, with Slurm alone {alone.code}: {step.errors.strip()[:300]}"]
    if alone.code != 0:
        return ["refused"]
    if len(step.tasks) != len(alone.tasks):
        return [f"{len(step.tasks)} tasks, with Slurm alone {len(alone.tasks)}"]
    table = step.table()
    for task, other in zip(step.tasks, alone.tasks):
        judge_task(case, task, other, table, wrong)
    for host in sorted({task["host"] for task in step.tasks}):
        judge_node(case, [task for task in step.tasks if task["host"] == host], wrong)
    return wrong


def needs_refusal(alone):
    """Whether a node has fewer GPUs than tasks, which Slurm alone accepts but a strict plan must refuse."""
    for host in {task["host"] for task in alone.tasks}:
        tasks = [task for task in alone.tasks if task["host"] == host]
        if sum(gpu["opens"] for gpu in tasks[0]["gpus"]) < len(tasks):
            return True
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--only", type=int, help="one case of the seed")
    parser.add_argument("--nodes", type=int, default=2, help="nodes of the cluster, at most 2 are used")
    parser.add_argument("--job", action="append", default=[], help="an option of every job")
    parser.add_argument("folder", help="folder for the tasks' observations")
    options = parser.parse_args()
    Case.nodes_at_most, Case.of_every_job = options.nodes, options.job
    numbers_of_cases = range(options.cases) if options.only is None else [options.only]
    bad = refused = 0
    for number in numbers_of_cases:
        case = Case(options.seed, number)
        step, alone = Step(case, True, options.folder), Step(case, False, options.folder)
        wrong = judge(case, step, alone)
        if wrong == ["refused"]:
            refused += 1
        elif wrong:
            bad += 1
            print(f"case {number}: {' '.join(case.command(True, 'FOLDER'))}")
            for line in wrong:
                print(f"  {line}")
            sys.stdout.flush()
    print(f"seed {options.seed}: {len(numbers_of_cases)} steps, {refused} refused, {bad} wrong")
    sys.exit(1 if bad or refused * 2 > len(numbers_of_cases) else 0)


if __name__ == "__main__":
    main()
