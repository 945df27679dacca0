#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loses ranks of elastic training runs at random moments, and compares the results with a run that lost none.

elastic_ranks.py MUSTER_TRAIN [--times N] [--ranks N] [--steps N] [--seed S] [--kind NAME] [--device cpu|cuda] [--output FILE]

With --deterministic the last checkpoint's tensors and the losses of all recorded steps must be equal, whichever ranks are lost. The kinds:
one rank is killed, rank 0 is killed, two ranks are killed at once, two are killed one after the other, one is stopped (after 10 s it counts
as lost), one is lost while a checkpoint is being written, and so many that fewer than --elastic are left (a checkpoint is saved, and a new
start goes on from it), and one when the results are written, and one that trains a network on images, whose running statistics are part of the state. With sharded optimizer state: one rank, rank 0, two of which neither has the copy of the other's part, or one together
with that copy (the newest checkpoint is read, and the line says so). In the kinds with a spare the last rank waits,
and takes the place of the lost one: of any, of rank 0, of one with sharded optimizer state; or the spare itself is lost. local-sgd has a spare, too, and no moments, of which each
rank has its own: the bytes are those of a run of that strategy that lost no rank. In the kinds "returns" a new process joins after the loss of a
rank: to train, with sharded optimizer state, or as a spare, which then takes the place of a second lost rank; or two join, and become the only ranks when those before them are lost, so that
one becomes rank 0; or it is killed when it is invited. One with other options is refused.

--output writes a line of JSON a run: the kind, the seconds from a rank's notice of the loss until the others went on, and those from the loss
to the end of the next step.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

DEADLINE = 200  # seconds without a new step of a run, or for anything else
OPTIONS = ["--warmup=3", "--no-mfu", "--no-tensorboard", "--deterministic", "--eval-every=10", "--log-every=0",
           "--elastic=2"]
OPTIONS_ON = {"cpu": ["--device=cpu", "--threads=1", "--layers=1", "--heads=2", "--width=16", "--context=12", "--batch=6"],
              "cuda": ["--device=cuda", "--layers=1", "--heads=1", "--width=64", "--context=8", "--batch=4"]}
IMAGES = ["--device=cpu", "--threads=1", "--model=resnet20", "--image-size=16", "--batch=6", "--chunk=2"]
# Ranks may share a GPU. In a folder that tests/gpu/run packed, both scripts are in one folder.
AS_OWN_HOST = pathlib.Path(__file__).resolve().with_name("as_own_host")
if not AS_OWN_HOST.exists():
    AS_OWN_HOST = AS_OWN_HOST.parents[3] / "gpu/as_own_host"
SPARE_KINDS = ["spare", "spare-rank-0", "spare-lost", "spare-sharded", "local-sgd"]
LOCAL_SGD = ["--strategy=local-sgd", "--sync-every=5", "--optimizer=sgd", "--momentum=0"]
SHARDED_KINDS = ["sharded", "sharded-rank-0", "sharded-two", "sharded-with-copy", "spare-sharded"]
RETURN_KINDS = ["returns", "returns-sharded", "returns-spare", "returns-rank-0", "returns-not"]
GPU_KINDS = ["refused-by-gpu"]
KINDS = ["killed", "rank-0", "two", "one-after-other", "checkpoint", *SHARDED_KINDS[:-1], "too-few", *SPARE_KINDS, "at-end", "images", "stopped", *RETURN_KINDS]
JOINED = re.compile(r"^(rank .*) joined, after step \d+; (\d+) ranks go on, [0-9.]+ s later$", re.MULTILINE)
LOST = re.compile(r"warning: rank (\d+) .*: lost (.*), after step (\d+); (\d+) ranks? goe?s? on, ([0-9.]+) s after")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Run:
    """The ranks of one start, as processes of this machine."""

    def __init__(self, arguments, folder, options=()):
        self.folder, self.options = folder, options
        model = [*IMAGES, f"--data={folder.parent / 'images'}"] if arguments.images else [*OPTIONS_ON[arguments.device], f"--data={folder.parent / 'text'}"]
        command = [AS_OWN_HOST, arguments.program, *OPTIONS, *model, f"--steps={arguments.steps}", f"--output={folder}", *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "PMI", "OMPI_"))}
        environment.update(WORLD_SIZE=str(arguments.ranks), LOCAL_WORLD_SIZE=str(arguments.ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
        (exchange := folder.parent / f"{folder.name}.nccl.{environment['MASTER_PORT']}").mkdir()
        environment["FAKE_NCCL_FOLDER"] = str(exchange)
        self.command, self.environment = command, environment
        self.logs, self.processes = [], []
        for rank in range(arguments.ranks):
            self.start(command, {"RANK": str(rank), "LOCAL_RANK": str(rank)})

    def start(self, command, variables=None):
        self.logs.append(self.folder.parent / f"{self.folder.name}.{len(self.processes)}.log")
        with open(self.logs[-1], "ab") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environment | (variables or {})))

    def join(self):
        """Starts one more process, which joins the run."""
        self.start([*self.command, "--join"])

    def output(self):
        return "".join(log.read_text(errors="replace") for log in self.logs)

    def fail(self, text):
        self.end()
        for log in self.logs:
            sys.stdout.write(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}\n")
        sys.exit(f"elastic_ranks: {text}")

    def last_step(self):
        return max((int(step) for step in re.findall(r"step (\d+)/", self.output())), default=0)

    def await_condition(self, what, holds, slow_rank=None):
        """slow_rank is stopped most of the time, so that all ranks need long for a step, also on an idle machine."""
        step, limit = self.last_step(), time.monotonic() + DEADLINE
        while not holds():
            if time.monotonic() > limit:
                if self.last_step() == step:
                    self.fail(f"{what} did not come, and no step in {DEADLINE} s")
                step, limit = self.last_step(), time.monotonic() + DEADLINE
            if all(process.poll() is not None for process in self.processes):
                self.fail(f"all ranks ended before {what}")
            time.sleep(0.002)
            if slow_rank is not None:
                self.send([slow_rank], signal.SIGSTOP)
                time.sleep(0.02)
                self.send([slow_rank], signal.SIGCONT)

    def send(self, ranks, number):
        for rank in ranks:
            self.processes[rank].send_signal(number)

    def wait(self, lost):
        """The survivors must end with 0."""
        self.wait_for_all(lost)
        for rank, process in enumerate(self.processes):
            if rank not in lost and process.returncode != 0:
                self.fail(f"rank {rank} ended with {process.returncode}")
        self.end()

    def ended(self, lost):
        return all(process.poll() is not None for rank, process in enumerate(self.processes) if rank not in lost)

    def wait_for_all(self, lost):
        self.await_condition("the end", lambda: self.ended(lost))

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def result_of(arguments, folder):
    tensors = (folder / "checkpoints" / f"step-{arguments.steps:08}" / "tensors.safetensors").read_bytes()
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    losses = {line["step"]: line["train_loss"] for line in metrics if "train_loss" in line}
    validations = {line["step"]: line["validation_loss"] for line in metrics if "validation_loss" in line}
    return tensors, losses, validations


def check(arguments, run, expected, began_again=False):
    tensors, losses, validations = result_of(arguments, run.folder)
    if tensors != expected[0]:
        run.fail("the last checkpoint has other bytes than that of a run that lost no rank")
    # What a killed rank 0 had not written yet is missing.
    wrong = [step for step, loss in losses.items() if loss != expected[1][step]]
    wrong += [step for step, loss in validations.items() if loss != expected[2].get(step)]
    if wrong or len(losses) < arguments.steps - 3 or (not began_again and validations.keys() != expected[2].keys()):
        run.fail(f"the metrics differ: {len(losses)} losses, {sorted(validations)} validated, wrong ones {wrong}")


def lose(arguments, run, kind, chance):
    """Loses ranks of the run. Returns them."""
    everyone = list(range(arguments.ranks))
    any_rank = chance.choice(everyone)
    # On one host, rank r + 1 has the copy of rank r's part.
    after = {distance: [any_rank, (any_rank + distance) % arguments.ranks] for distance in (1, 2)}
    lost = {"rank-0": [0], "sharded-rank-0": [0], "sharded-two": after[2], "sharded-with-copy": after[1], "spare-rank-0": [0], "spare-lost": everyone[-1:], "spare": [chance.choice(everyone[:-1])],
            "spare-sharded": [chance.choice(everyone[:-1])], "local-sgd": [chance.choice(everyone[:-1])], "two": chance.sample(everyone, 2), "one-after-other": chance.sample(everyone, 2),
            "too-few": chance.sample(everyone, arguments.ranks - 1)}.get(kind, [any_rank])
    if kind == "at-end":
        run.await_condition("the results", lambda: "\nsummary " in run.output())
        run.send(lost, signal.SIGKILL)
        return lost
    run.await_condition("the first steps", lambda: run.last_step() >= chance.randint(1, arguments.steps // 3))
    if kind == "checkpoint":
        run.await_condition("a checkpoint", lambda: list(run.folder.glob("checkpoints/*.partial")) or run.last_step() >= 3 * arguments.steps // 4)
    else:
        time.sleep(chance.uniform(0, 0.02))
    if kind == "one-after-other":
        run.send(lost[:1], signal.SIGKILL)
        time.sleep(chance.choice([chance.uniform(0, 0.05), chance.uniform(0.05, 0.5)]))
        run.send(lost[1:], signal.SIGKILL)
    else:
        run.send(lost, signal.SIGSTOP if kind == "stopped" else signal.SIGKILL)
    return lost


def await_next_step(run):
    """Returns the seconds from the loss to the end of the next step."""
    from_loss = time.monotonic()
    run.await_condition("the next step", lambda: re.search(r" on, [0-9.]+ s after(?s:.*)\bstep \d+/", run.output()))
    return round(time.monotonic() - from_loss, 3)


def run_once(arguments, kind, folder, chance, expected):
    """Returns the seconds that the ranks needed to go on, and those from the loss to the end of the next step."""
    options = ["--shard-optimizer"] if kind in SHARDED_KINDS else []
    if kind in SPARE_KINDS:
        options.append(f"--elastic=2:{arguments.ranks - 1}")
    every = {"checkpoint": 2, "local-sgd": 10}.get(kind, 7)
    if kind in GPU_KINDS:
        join_without_memory(arguments, folder)
        return [], None
    if kind in RETURN_KINDS:
        join_again(arguments, kind, folder)
        return [], None
    if kind in ("local-sgd", "images"):
        options += LOCAL_SGD if kind == "local-sgd" else []
        arguments = argparse.Namespace(**{**vars(arguments), "images": kind == "images"})
        whole = Run(arguments, folder.parent / f"whole-{kind}", [*options, f"--checkpoint-every={every}"])
        whole.wait([])
        expected = result_of(arguments, whole.folder)
        shutil.rmtree(whole.folder)
    run = Run(arguments, folder, [*options, f"--checkpoint-every={every}"])
    lost = lose(arguments, run, kind, chance)
    to_next_step = await_next_step(run) if arguments.output and kind != "at-end" else None
    run.wait(lost)
    if kind == "at-end":
        check(arguments, run, expected)
        return [], None
    found = LOST.findall(run.output())
    if not found:
        run.fail("no line about the lost ranks")
    if kind == "local-sgd" and int(found[0][2]) == arguments.steps:
        # Nothing was computed after the loss. The checkpoint then has the moments of one rank in place of their average, as documented.
        return run_once(arguments, kind, folder.with_name(folder.name + "-again"), chance, expected)
    if kind == "too-few":
        if '"state":"unfinished"' not in (folder / "status.json").read_text() or f"stopped with 1 rank of at least 2 after step" not in run.output():
            run.fail("too few ranks, and the run is not left unfinished")
        run = Run(arguments, folder)
        run.wait([])
    elif '"state":"finished"' not in (folder / "status.json").read_text():
        run.fail("the run is not finished")
    summary = json.loads((folder / "summary.json").read_text())
    if kind not in ("too-few", "stopped") and len(re.findall(r"rank \d+ \(host", " ".join(summary["lost_ranks"]))) != len(lost):
        run.fail(f"the summary names {summary['lost_ranks']} as lost, and {lost} were")
    joined = [f"rank {arguments.ranks - 1} (host"] if kind in SPARE_KINDS and kind != "spare-lost" else []
    if len(summary["joined_ranks"]) != len(joined) or not all(name in " ".join(summary["joined_ranks"]) for name in joined):
        run.fail(f"the summary names {summary['joined_ranks']} as joined, and not {joined}")
    if joined and int(found[0][3]) != arguments.ranks - 1:
        run.fail(f"{found[0][3]} ranks went on, and not as many as before")
    went_back = re.search("; no rank has a part of the state, so (the newest checkpoint was read|the run begins anew)", run.output())
    if (went_back is not None) != (kind == "sharded-with-copy"):
        run.fail(f"the state {'was not' if went_back is None else 'was'} read from a checkpoint")
    check(arguments, run, expected, kind in ("sharded-with-copy", "too-few"))
    return [float(line[4]) for line in found], to_next_step


def undisturbed_tensors(arguments, folder):
    """Of a run of arguments.steps, which is only made once."""
    if arguments.steps not in arguments.undisturbed:
        run = Run(arguments, folder, ["--eval-every=0", "--checkpoint-every=0"])
        run.wait([])
        arguments.undisturbed[arguments.steps] = (folder / "checkpoints" / f"step-{arguments.steps:08}" / "tensors.safetensors").read_bytes()
        shutil.rmtree(folder)
    return arguments.undisturbed[arguments.steps]


def join_again(arguments, kind, folder):
    """A rank is lost, and a new process joins. If the run ends before that, a longer one follows."""
    options = ["--shard-optimizer"] if kind == "returns-sharded" else []
    spare = kind == "returns-spare"
    if kind == "returns-rank-0":
        return join_and_lead(arguments, folder)
    options.append(f"--elastic=2:{arguments.ranks - 1 if spare else arguments.ranks}")
    steps, last = 5 * arguments.steps, arguments.ranks - 1
    while True:
        longer = argparse.Namespace(**{**vars(arguments), "steps": steps})
        run = Run(longer, folder.with_name(f"{folder.name}-of-{steps}"), [*options, "--eval-every=0", "--checkpoint-every=0"])
        run.await_condition("the first steps", lambda: run.last_step() >= 2)
        run.send([1], signal.SIGKILL)
        run.await_condition("the loss", lambda: LOST.search(run.output()))
        lost = [1]
        refused = subprocess.Popen([*run.command, "--join", "--seed=77"], env=run.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        run.join()
        if kind == "returns-not":
            run.await_condition("the invitation", lambda: list(run.folder.glob(f"join/*.{run.processes[-1].pid}.answer")) or run.ended(lost), last)
            run.send([arguments.ranks], signal.SIGKILL)
            lost.append(arguments.ranks)
        else:
            run.await_condition("the new rank", lambda: JOINED.search(run.output()) and refused.poll() is not None or run.ended(lost), last)
        if spare:
            run.send([2], signal.SIGKILL)
            lost.append(2)
        run.wait_for_all(lost)
        refusal = refused.communicate(timeout=DEADLINE)[1]
        if kind == "returns-not" and run.processes[arguments.ranks].poll() == 0:  # it had read the invitation before it could be killed
            shutil.rmtree(run.folder)
            steps += 1  # other files
            continue
        if "grow: the job goes on as before: " in run.output() or JOINED.search(run.output()) and (not spare or len(LOST.findall(run.output())) == 2):
            break
        shutil.rmtree(run.folder)
        steps *= 3
    if (refused.returncode, refusal) != (64, "muster-train: --join: the run was started with other options\n"):
        run.fail(f"a process with other options ended with {refused.returncode}: {refusal}")
    run.wait(lost)
    if kind == "returns-not":
        found = re.findall(r".*grow: the job goes on as before: .*|.*: lost .* on, .*|.* joined, after .*", run.output())
        if run.output().count("grow: the job goes on as before: ") + len(LOST.findall(run.output())) != 2:
            run.fail(f"the process that was killed when it was invited is not in one line of {found}")
    else:
        check_joined(arguments, run, spare)
    tensors = (run.folder / "checkpoints" / f"step-{steps:08}" / "tensors.safetensors").read_bytes()
    shutil.rmtree(run.folder)
    if tensors != undisturbed_tensors(longer, folder.with_name("whole-longer")):
        run.fail("the last checkpoint has other bytes than that of a run that nobody joined")


def join_and_lead(arguments, folder):
    """Two processes join, and all ranks before them are lost. If the run ends before that, a longer one follows."""
    steps = 5 * arguments.steps
    lost = list(range(arguments.ranks))
    while True:
        longer = argparse.Namespace(**{**vars(arguments), "steps": steps})
        run = Run(longer, folder.with_name(f"{folder.name}-of-{steps}"), ["--eval-every=0", "--checkpoint-every=0"])
        run.await_condition("the first steps", lambda: run.last_step() >= 2)
        run.send([1], signal.SIGKILL)
        run.await_condition("the loss", lambda: LOST.search(run.output()))
        run.join()
        run.join()
        run.await_condition("the new ranks", lambda: count_ranks(JOINED.findall(run.output())) == 2 or run.ended([1]), lost[-1])
        run.send([rank for rank in lost if rank != 1], signal.SIGKILL)
        run.wait_for_all(lost)
        if count_ranks(LOST.findall(run.output())) == len(lost):
            break
        shutil.rmtree(run.folder)
        steps *= 3
    run.wait(lost)
    summary = json.loads((run.folder / "summary.json").read_text())
    status = json.loads((run.folder / "status.json").read_text())
    found = {"world_size": summary["world_size"], "hosts": summary["hosts"], "ranks": [rank["rank"] for rank in summary["machine"]["ranks"]], "lost_hosts": len(status["lost_hosts"]),
             "lost": count_ranks(summary["lost_ranks"]), "joined": count_ranks(summary["joined_ranks"])}
    if found != {"world_size": len(lost), "hosts": 1, "ranks": lost, "lost_hosts": len(lost), "lost": len(lost), "joined": 2}:
        run.fail(f"a process that joined and became rank 0 wrote {found}")
    tensors = (run.folder / "checkpoints" / f"step-{steps:08}" / "tensors.safetensors").read_bytes()
    shutil.rmtree(run.folder)
    if tensors != undisturbed_tensors(longer, folder.with_name("whole-longer")):
        run.fail("the last checkpoint has other bytes than that of a run that lost no rank")


def join_without_memory(arguments, folder):
    """The GPU of a process that joins has no memory (of the fake GPU). If the run ends before that, a longer one follows."""
    steps = 15 * arguments.steps
    while True:
        longer = argparse.Namespace(**{**vars(arguments), "steps": steps})
        run = Run(longer, folder.with_name(f"{folder.name}-of-{steps}"), ["--eval-every=0", "--checkpoint-every=0"])
        run.await_condition("the first steps", lambda: run.last_step() >= 2)
        refused = subprocess.run([*run.command, "--join"], env=run.environment | {"FAKE_CUDA_FREE_MIB": "1"}, capture_output=True, text=True, timeout=DEADLINE)
        run.wait_for_all([])
        shutil.rmtree(run.folder)
        if "no run is under way" not in refused.stderr:
            break
        steps *= 3
    run.wait([])
    if refused.returncode != 64 or not re.fullmatch(r"muster-train: --batch .* free on its GPU: .*\n", refused.stderr):
        run.fail(f"a process without memory on its GPU ended with {refused.returncode}: {refused.stderr}")
    if count_ranks(LOST.findall(run.output())) != 1:
        run.fail("the ranks did not go on without it in one line")


def count_ranks(texts):
    return len(re.findall(r"rank \d+ \(host", str(texts)))


def check_joined(arguments, run, spare):
    joined = JOINED.findall(run.output())
    went_on = str(arguments.ranks - 1 if spare else arguments.ranks)
    if len(joined) != 1 or joined[0][1] != went_on or not joined[0][0].startswith(f"rank {arguments.ranks - 1} (host"):
        run.fail(f"the line about the process that joined is wrong: {joined}")
    if spare and "joined by the spare rank " not in run.output():
        run.fail("the process that joined as a spare did not replace the second lost rank")


def refuse_too_many(arguments):
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "PMI", "OMPI_"))}
    ended = subprocess.run([arguments.program, "--device=cpu", "--no-mfu", "--elastic=2"], capture_output=True, text=True, env=alone, timeout=DEADLINE)
    if ended.returncode != 64 or ended.stderr != "muster-train: --elastic 2 is more than this job has: 1 rank\n":
        sys.exit(f"elastic_ranks: --elastic=2 on one rank ended with {ended.returncode}: {ended.stderr}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--times", type=int, default=len(KINDS) - 1)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    parser.add_argument("--kind", choices=KINDS + GPU_KINDS, action="append", help="may be repeated; without it all, one after the other")
    parser.add_argument("--device", choices=OPTIONS_ON, default="cpu")
    parser.add_argument("--output")
    arguments = parser.parse_args()
    arguments.images, arguments.undisturbed = False, {}
    chance = random.Random(arguments.seed)
    print(f"seed {arguments.seed}", flush=True)
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        (folder / "text").write_text("".join(f"line {i} of a text that is long enough to learn something from\n" for i in range(600)))
        subprocess.run([arguments.program, "make-data", "cifar", f"--output={folder / 'images'}", "--train=60", "--held-out=40"], check=True, stdout=subprocess.DEVNULL, timeout=DEADLINE)
        whole = Run(arguments, folder / "whole")
        whole.wait([])
        expected = result_of(arguments, folder / "whole")
        for number in range(arguments.times):
            kinds = arguments.kind or KINDS
            kind = kinds[number % len(kinds)]
            seconds, to_next_step = run_once(arguments, kind, folder / f"run{number}", chance, expected)
            shutil.rmtree(folder / f"run{number}", ignore_errors=True)
            for log in folder.glob(f"run{number}*.log"):
                log.unlink()
            print(f"run {number + 1}, {kind}: went on after {seconds} s, same bytes", flush=True)
            if arguments.output:
                with open(arguments.output, "a", encoding="utf-8") as file:
                    file.write(json.dumps({"kind": kind, "seconds": seconds, "to_next_step": to_next_step}) + "\n")
        refuse_too_many(arguments)
    finally:
        shutil.rmtree(folder)


main()
