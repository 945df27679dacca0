# SPDX-License-Identifier: Apache-2.0
"""One elastic run of muster-train on a lab of three nodes, for tests/bench/elastic_losses."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
LAB = str(HERE.parent / "lab/lab")
sys.path.insert(0, str(HERE.parent / "cluster"))
from rank_processes import processes  # noqa: E402
from srun_output import endings  # noqa: E402

RANKS = 8
DEADLINE = 120  # seconds that any wait may take
# A layer or two, so that a step of eight ranks takes 0.2 s on two cores.
MODEL = ["--device=cpu", "--threads=1", "--layers=2", "--heads=2", "--width=64", "--context=32", "--batch=24", "--warmup=3", "--eval-every=0",
         "--validation-fraction=0", "--log-every=0", "--no-mfu", "--no-tensorboard", "--deterministic"]
LOCAL_SGD_RANKS = 5  # that train
STRATEGIES = {
    "data-parallel": ["--elastic=2:8"],
    "shard-optimizer": ["--elastic=2:8", "--shard-optimizer"],
    # Other numbers of ranks give other bits, so spares must take the places of lost ranks. Of the moments, each rank has its own.
    "local-sgd": [f"--elastic=2:{LOCAL_SGD_RANKS}", "--strategy=local-sgd", "--sync-every=3", "--optimizer=sgd", "--momentum=0"],
}
CHANGED = re.compile(r"warning: (.*): lost (.*), after step (\d+); (\d+) ranks? goe?s? on, ([0-9.]+) s after the loss was noticed(.*)")


def lost_with_copy(lost):
    """Of 3, 3 and 2 ranks on the hosts, rank r + 3 has the copy of rank r's part of the optimizer's state."""
    return any((rank + 3) % RANKS in lost for rank in lost)


class WrongRun(Exception):
    """What is wrong with a run, in one line."""


class LateLoss(Exception):
    """The run had ended before the loss, so it shows nothing."""


class ElasticRun:
    """The ranks of one srun, from their start to their end."""

    def __init__(self, lab, program, folder, strategy, steps, data, mpi):
        self.lab, self.program, self.folder, self.strategy, self.steps = lab, program, folder, strategy, steps
        self.shown = []  # (time, rank, line), of srun: rank -1
        command = [LAB, "--name", lab, "exec", "srun", f"--mpi={mpi}", "--label", "-N3", f"-n{RANKS}", "--overcommit", "--no-kill", "--kill-on-bad-exit=0", "--wait=0",
                   program, f"--output={folder}", f"--status={folder}.status", f"--data={data}", f"--steps={steps}", "--checkpoint-every=3", *MODEL, *STRATEGIES[strategy]]
        self.srun = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.pids, self.nodes, self.cut = {}, {}, []  # by rank; the nodes whose links are down

    def read(self):
        for line in self.srun.stdout:
            labelled = re.match(r"(\d+): (.*)", line)
            self.shown.append((time.monotonic(), int(labelled[1]) if labelled else -1, labelled[2] if labelled else line.rstrip()))

    def wait_until(self, what, holds):
        limit = time.monotonic() + DEADLINE
        while not (found := holds()):
            if time.monotonic() > limit:
                raise WrongRun(f"{what} did not come in {DEADLINE} s")
            if self.srun.poll() is not None and not self.reader.is_alive() and not holds():
                raise WrongRun(f"srun ended before {what}")
            time.sleep(0.002)
        return found

    def is_queued(self, seconds):
        """Whether Slurm has not started it after so many seconds."""
        limit = time.monotonic() + seconds
        while self.srun.poll() is None and not any(rank >= 0 for _, rank, _ in list(self.shown)):
            if time.monotonic() > limit:
                return True
            time.sleep(0.002)
        return False

    def last_step(self):
        return max((int(found[1]) for _, _, line in list(self.shown) if (found := re.match(r"step (\d+)/", line))), default=0)

    def find_ranks(self):
        for pid, (rank, node) in self.processes().items():
            self.pids[rank], self.nodes[rank] = pid, node
        if len(self.pids) != RANKS and self.state() == "finished":
            raise LateLoss
        if len(self.pids) != RANKS:
            raise WrongRun(f"{len(self.pids)} processes of {RANKS} ranks")

    def ranks_on(self, node):
        return [rank for rank, its in self.nodes.items() if its == node]

    def send(self, ranks, number):
        """To several ranks: stops them first, so that none of them reports another one's end."""
        for each in [signal.SIGSTOP, number] if len(ranks) > 1 else [number]:
            for rank in ranks:
                os.kill(self.pids[rank], each)

    def link(self, node, way):
        subprocess.run([LAB, "--name", self.lab, "node", node, "ip", "link", "set", "eth0", way], check=True, timeout=DEADLINE)
        self.cut = [node] if way == "down" else []

    def state(self):
        try:
            return json.loads(pathlib.Path(f"{self.folder}.status").read_text())["state"]
        except FileNotFoundError:
            return "running"

    def finish(self, lost):
        """Waits until the ranks that are left have finished, and ends stopped ones, which Slurm would await for ever."""
        self.wait_until("the end", lambda: self.state() != "running" or self.srun.poll() is not None)
        cut = bool(self.cut)
        self.wait_until("the end of the ranks", lambda: not {rank for rank, _ in self.processes().values()} - set([] if cut else lost))
        self.clean_up()
        try:
            # Over a broken link slurmstepd cannot report how its ranks ended, and srun awaits them for ever.
            self.srun.wait(3 if cut else DEADLINE)
        except subprocess.TimeoutExpired:
            if not cut:
                raise WrongRun(f"srun did not end in {DEADLINE} s") from None
            self.cancel()
        self.reader.join(DEADLINE)

    def processes(self):
        return processes(self.program, f"--output={self.folder}")

    def clean_up(self):
        """Ends what may be left of lost ranks."""
        for node in list(self.cut):
            self.link(node, "up")
        for rank, pid in self.pids.items():
            try:
                if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] in "tT":
                    os.kill(pid, signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                pass

    def cancel(self):
        if self.srun.poll() is not None:
            return
        self.srun.terminate()  # lab exec forwards the signal: srun cancels its job
        try:
            self.srun.wait(20)
        except subprocess.TimeoutExpired:
            self.srun.kill()
            self.srun.wait()

    def end(self):
        """After an error."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for node in list(self.cut):
            self.link(node, "up")
        self.cancel()

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        pathlib.Path(f"{self.folder}.status").unlink(missing_ok=True)

    def tensors(self):
        return (pathlib.Path(self.folder) / "checkpoints" / f"step-{self.steps:08}" / "tensors.safetensors").read_bytes()

    def check(self, lost, expected):
        """@raises WrongRun unless the ranks that are left ended with 0, named the lost ones in one line and have the expected bytes."""
        if any(int(found[3]) == self.steps for _, _, line in self.shown if (found := CHANGED.match(line))):
            raise LateLoss
        # Spares that are silent hold up nobody: the run can end before they are noticed.
        if any(line.endswith(": the run had ended") for _, _, line in self.shown):
            raise LateLoss
        if self.state() != "finished":
            raise WrongRun(f"the run is {self.state()}, and not finished")
        ends = {rank: text for rank, text in endings(line for _, rank, line in self.shown if rank < 0).items() if rank not in lost}
        if ends:
            raise WrongRun(f"ranks that were not lost ended with an error: {ends}")
        present, named = list(range(RANKS)), []
        # A lost rank may have printed the line about an earlier loss. What one that is cut off prints later does not count.
        lines = [line for _, rank, line in self.shown
                 if rank >= 0 and (CHANGED.match(line) or rank not in lost and re.match(r"warning|muster|skipping|note: the checkpoint", line))]
        for line in lines:
            change = CHANGED.match(line)
            if not change:
                raise WrongRun(f"a line other than that about the loss: {line}")
            now = [present[int(number)] for number in re.findall(r"rank (\d+) \(host", change[2])]
            if int(re.match(r"rank (\d+)|slurmstepd", change[1])[1]) not in [present.index(rank) for rank in now]:
                raise WrongRun(f"the line's reason names another rank than those that were lost: {line}")
            if ("no rank has a part of the state" in line) != self.has_lost_state(present, now):
                raise WrongRun(f"the state was read from a checkpoint, or should have been: {line}")
            named += now
            present = [rank for rank in present if rank not in now]
        if sorted(named) != sorted(lost):
            raise WrongRun(f"lost were {sorted(lost)}, and the lines name {sorted(named)}")
        if self.keeps_bytes(lost) and self.tensors() != expected:
            raise WrongRun("the last checkpoint has other bytes than that of a run that lost no rank")
        return len(lines)

    def keeps_bytes(self, lost):
        """With fewer ranks than before, local SGD has other bits."""
        return self.strategy != "local-sgd" or RANKS - len(lost) >= LOCAL_SGD_RANKS

    def has_lost_state(self, present, lost):
        """Whether the ranks that are left do not have all of the state, when of the ranks `present` those of `lost` are lost."""
        if self.strategy == "local-sgd":
            return set(present[:LOCAL_SGD_RANKS]) <= set(lost)
        return self.strategy == "shard-optimizer" and len(present) == RANKS and lost_with_copy(lost)

    def times(self, faults):
        """Seconds from the last fault to its notice, and from the later of both to the end of the next step."""
        at, seconds = next((when, float(found[5])) for when, _, line in reversed(self.shown) if (found := CHANGED.match(line)))
        noticed = at - seconds  # to 0.05 s
        step = next((when for when, _, line in self.shown if when >= at and re.match(r"step \d+/", line)), None)
        if step is None:
            raise WrongRun("no step followed the loss")
        return max(0.0, noticed - faults[-1]), step - max(noticed, faults[-1])
