# SPDX-License-Identifier: Apache-2.0
"""One elastic run of muster-train on this machine, for elastic_ranks.py and elastic_joins.py."""
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

DEADLINE = 200  # seconds that any run may take
OPTIONS = ["--warmup=3", "--no-mfu", "--no-tensorboard", "--deterministic", "--eval-every=10", "--log-every=0",
           "--elastic=2"]
OPTIONS_ON = {"cpu": ["--device=cpu", "--threads=1", "--layers=1", "--heads=2", "--width=16", "--context=12", "--batch=6"],
              "cuda": ["--device=cuda", "--layers=1", "--heads=1", "--width=64", "--context=8", "--batch=4"]}
NOTHING_BETWEEN = ["--eval-every=0", "--checkpoint-every=0"]  # the steps
IMAGES = ["--device=cpu", "--threads=1", "--model=resnet20", "--image-size=16", "--batch=6", "--chunk=2"]
# Ranks may share a GPU. tests/gpu/run packs all scripts into one folder.
AS_OWN_HOST = pathlib.Path(__file__).resolve().with_name("as_own_host")
if not AS_OWN_HOST.exists():
    AS_OWN_HOST = AS_OWN_HOST.parents[3] / "gpu/as_own_host"
JOINED = re.compile(r"^(rank .*) joined, after step \d+; (\d+) ranks go on, [0-9.]+ s later$", re.MULTILINE)
LOST = re.compile(r"warning: rank (\d+) .*: lost (.*), after step (\d+); (\d+) ranks? goe?s? on, ([0-9.]+) s after")


# The ranks meet at a socket whose name has address and port. No other process has this address, no other run of this one this port.
ADDRESS = f"127.{os.getpid() >> 16 & 255}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
ports = itertools.count(20000)


class Run:
    """The ranks of one start, as processes of this machine."""

    def __init__(self, arguments, folder, options=()):
        self.folder, self.options = folder, options
        model = [*IMAGES, f"--data={folder.parent / 'images'}"] if arguments.images else [*OPTIONS_ON[arguments.device], f"--data={folder.parent / 'text'}"]
        command = [AS_OWN_HOST, arguments.program, *OPTIONS, *model, f"--steps={arguments.steps}", f"--output={folder}", *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "PMI", "OMPI_"))}
        environment.update(WORLD_SIZE=str(arguments.ranks), LOCAL_WORLD_SIZE=str(arguments.ranks), MASTER_ADDR=ADDRESS, MASTER_PORT=str(next(ports)))
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
            sys.stdout.write(f"--- {log.name}\n{log.read_text(errors='replace')[-20000:]}\n")
        sys.exit(f"elastic_ranks: {text}")

    def last_step(self):
        return max((int(step) for step in re.findall(r"step (\d+)/", self.output())), default=0)

    def await_condition(self, what, holds, slow_rank=None):
        """slow_rank is stopped most of the time, so that all ranks need long for a step, also on an idle machine."""
        limit = time.monotonic() + DEADLINE
        while not holds():
            if time.monotonic() > limit:
                self.fail(f"{what} did not come in {DEADLINE} s")
            # They may have ended after holds() was asked.
            if all(process.poll() is not None for process in self.processes) and not holds():
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
        limit = time.monotonic() + DEADLINE
        for rank, process in enumerate(self.processes):
            if rank in lost:
                continue
            try:
                code = process.wait(max(0.1, limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.fail(f"rank {rank} did not end in {DEADLINE} s")
            if code != 0:
                self.fail(f"rank {rank} ended with {code}")
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


def tensors_of(arguments, folder):
    return (folder / "checkpoints" / f"step-{arguments.steps:08}" / "tensors.safetensors").read_bytes()


def count_ranks(texts):
    return len(re.findall(r"rank \d+ \(host", str(texts)))
