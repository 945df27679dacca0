#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills training runs with SIGKILL at random moments, restarts them, and compares their results with a run that was never stopped.

killed_and_resumed.py MUSTER_TRAIN [--mpirun MPIRUN] [--times N] [--steps N] [--seed S]

Each run is killed one to four times, mostly in a random remaining step and otherwise during its start. The kill hits one rank, or all
ranks with their launcher. Four kinds of runs alternate: one rank; with --deterministic, another number of ranks at every start; two
ranks; and two ranks of local SGD. Both files of the last checkpoint must be equal byte for byte, and all metrics except times. For
changing numbers of ranks only the tensors must be equal, because the state contains the number.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

MOST_KILLS = 4
DEADLINE = 120  # seconds that any start may take
OPTIONS = ["--layers=1", "--heads=2", "--width=32", "--context=24", "--batch=7", "--warmup=5", "--threads=1",
           "--device=cpu", "--no-mfu", "--no-tensorboard", "--eval-every=10", "--checkpoint-every=1", "--log-every=1000"]
METRICS = ["step", "train_loss", "learning_rate", "gradient_norm", "validation_loss", "validation_count"]


class Kind:
    def __init__(self, name, ranks, options=()):
        self.name, self.ranks, self.options = name, ranks, list(options)
        self.expected = None
        self.starting = self.training = 0.0  # seconds


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Start:
    """One start of the program on this number of ranks."""

    may_end_improperly = True  # once, see tests/unit/mpirun_with_retry

    def __init__(self, arguments, kind, ranks, folder):
        command = [arguments.program, *OPTIONS, *kind.options, f"--steps={arguments.steps}", f"--data={folder.parent / 'text'}", f"--output={folder}"]
        if ranks > 1:
            command = [arguments.mpirun, "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] + command
        # Open MPI's leftovers of killed ranks are removed with the folder.
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR=str(folder.parent),
                           OMPI_MCA_btl_vader_backing_directory=str(folder.parent))
        self.checkpoints = folder / "checkpoints"
        self.status = folder / "status.json"
        self.status.unlink(missing_ok=True)
        self.log = open(f"{folder}.log", "ab")
        self.said_before = self.log.tell()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=environment, start_new_session=True)
        self.ranks = ranks

    def wait(self, seconds):
        """The exit code, or None when it still runs."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        return 0 if code != 0 and self.ended_improperly() else code

    def ended_improperly(self):
        """Whether only mpirun says that this start failed, although it finished."""
        said = pathlib.Path(self.log.name).read_bytes()[self.said_before:]
        improper = Start.may_end_improperly and b"exiting improperly" in said and self.status.exists() and '"state":"finished"' in self.status.read_text()
        Start.may_end_improperly &= not improper
        return improper

    def await_training(self):
        """Waits until training begins or the process has ended."""
        limit = time.monotonic() + DEADLINE
        while self.process.poll() is None and time.monotonic() < limit:
            if self.status.exists() and '"state":"running"' in self.status.read_text():
                return
            time.sleep(0.001)

    def done(self):
        """The last step that has a checkpoint."""
        return max((int(path.name[5:]) for path in self.checkpoints.glob("step-????????")), default=0)

    def await_step(self, step):
        """Waits until the step's checkpoint exists or the process has ended."""
        limit = time.monotonic() + DEADLINE
        while self.process.poll() is None and time.monotonic() < limit and self.done() < step:
            time.sleep(0.001)

    def rank_pids(self):
        if self.ranks == 1:
            return [self.process.pid]
        try:
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        except OSError:
            return []
        return [int(pid) for pid in children.split()]

    def kill(self, chance):
        """Sends SIGKILL to one rank or to all, and waits for all to end."""
        pids = self.rank_pids()
        if pids and chance.random() < 0.5:
            pids = [chance.choice(pids)]
        else:
            pids.append(self.process.pid)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        # mpirun of Open MPI 4.1 sometimes hangs when a rank dies during its start: without ranks, mpirun is
        # killed too.
        limit, alone = time.monotonic() + DEADLINE, 0
        while self.wait(0.1) is None and time.monotonic() < limit:
            alone = 0 if any(map(is_running, self.rank_pids())) else alone + 1
            if alone == 100:
                self.process.kill()
        if self.wait(0) is None:
            left = subprocess.run(["ps", "-o", "pid,ppid,stat,wchan:20,args", "-s", str(self.process.pid)], capture_output=True, text=True)
            os.killpg(self.process.pid, signal.SIGKILL)
            sys.stdout.write(pathlib.Path(self.log.name).read_text(errors="replace")[-4000:] + left.stdout)
            sys.exit(f"killed_and_resumed: after SIGKILL to {pids} of {self.ranks} ranks the rest did not end in {DEADLINE} s")

    def end(self):
        self.log.close()


def result_of(arguments, folder, kind):
    """The parts of the last checkpoint and of the metrics that must be equal."""
    checkpoint = folder / "checkpoints" / f"step-{arguments.steps:08}"
    state = (checkpoint / "state.json").read_text()
    if len(kind.ranks) > 1:
        fields = json.loads(state)
        state = (fields["step"], fields["samples"], fields["skipped"], fields["tensor_hash"])
    # All metrics except times. Each step occurs once; lines that a kill removed are written again.
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    numbers = [{key: line[key] for key in METRICS if key in line} for line in metrics]
    return (checkpoint / "tensors.safetensors").read_bytes(), state, numbers


def fail(folder, text):
    sys.stdout.write(pathlib.Path(f"{folder}.log").read_text(errors="replace")[-4000:])
    sys.exit(f"killed_and_resumed: {text}")


def run_whole(arguments, kind, folder):
    begin = time.monotonic()
    start = Start(arguments, kind, kind.ranks[0], folder)
    start.await_training()
    kind.starting = time.monotonic() - begin
    code = start.wait(DEADLINE)
    start.end()
    if code != 0:
        fail(folder, f"a run that nobody stopped ended with {code}")
    kind.training = time.monotonic() - begin - kind.starting
    kind.expected = result_of(arguments, folder, kind)


def run_killed(arguments, kind, folder, chance):
    """Returns the number of kills, at least one, and how many of them happened while a checkpoint was being written."""
    kills = within = spared = 0
    while True:
        start = Start(arguments, kind, chance.choice(kind.ranks), folder)
        if kills == MOST_KILLS:
            code = start.wait(DEADLINE)
            if code is None:
                fail(folder, f"did not end in {DEADLINE} s")
        elif chance.random() < 0.2:
            code = start.wait(chance.uniform(0, kind.starting))
        else:
            # Wait for a step and not for a time, because a step's time depends on the machine's load.
            start.await_training()
            start.await_step(chance.randint(0, max(0, arguments.steps - 2)))
            code = start.wait(chance.uniform(0, 2 * kind.training / arguments.steps))
        if code is None:
            start.kill(chance)
            kills += 1
            within += bool(list(folder.glob("checkpoints/*.partial")))
        start.end()
        if code is not None and code != 0:
            fail(folder, f"ended with {code} though nobody killed it")
        if code == 0 and kills > 0:
            break
        if code == 0:  # ended before it was killed: start again
            spared += 1
            if spared == 20:
                fail(folder, "ended 20 times before it could be killed")
            shutil.rmtree(folder)
    if result_of(arguments, folder, kind) != kind.expected:
        fail(folder, f"{kind.name}: killed {kills} times, it ended with other bytes than a run that was never stopped")
    return kills, within


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--mpirun")
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    print(f"seed {arguments.seed}", flush=True)
    fixed = ["--deterministic", "--chunk=2"]
    kinds = [Kind("one rank", [1])]
    if arguments.mpirun:
        averaged = ["--strategy=local-sgd", "--sync-every=2", "--checkpoint-every=2", "--outer-optimizer=nesterov"]
        kinds += [Kind("changing numbers of ranks", [1, 2, 3], fixed), Kind("two ranks", [2]), Kind("two ranks of local SGD", [2], averaged)]
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        (folder / "text").write_text("".join(f"line {i} of a text that is long enough to learn something from\n" for i in range(600)))
        for number, kind in enumerate(kinds[:arguments.times]):
            run_whole(arguments, kind, folder / f"whole{number}")
        total = total_within = 0
        for number in range(arguments.times):
            kind = kinds[number % len(kinds)]
            kills, within = run_killed(arguments, kind, folder / f"run{number}", chance)
            shutil.rmtree(folder / f"run{number}")
            print(f"run {number + 1}, {kind.name}: killed {kills} times, same bytes", flush=True)
            total, total_within = total + kills, total_within + within
        print(f"{arguments.times} runs, {total} kills ({total_within} while a checkpoint was being written), all ended with the same bytes")
    finally:
        shutil.rmtree(folder)


main()
