#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The survivors' behaviour after a failure: failures.py [--times N] [--side-by-side M] [CASE...]

Runs each case on the lab named in MUSTER_LAB (four nodes, placed by the plugin), M at a time, and checks from outside: the job's one line, exit
codes (or Slurm's own kill, if the ranks stay connected to PMIx), and the time until the program's last process has ended, counted from the event
(or from the end of the silence, if silence is detected). Prints one line for each case that begins with "ok" or "FAILED" and has the minimum,
median and maximum of the times. If a process of a case is left, the case fails and the process is ended. A case that fails while this machine
did not schedule processes in time proves nothing about the job, so it runs again. So does a case whose only fault is that its last process ended
late: the kernel may take seconds to end a process beside many others, and a job that hangs is late each time.
"""
import argparse
import concurrent.futures
import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid

from rank_processes import Fifo, parent_of, processes
from srun_output import endings

BUILD = os.environ["MUSTER_BUILD"]
PROGRAM = BUILD + "/bin/surviving_ranks"
LAB = os.environ["LAB_COMMAND"]
HOLD = 2.0  # survivors are gone by then
STALL = 0.1  # a delay of this script's own wake-up that counts as a stall, in seconds
TRIES = 5  # of a case that fails during a stall
SILENCE = 2.0
CUT_OFF = "n2,n3"  # the nodes whose link goes down, for one case at a time
cutting = threading.Lock()
NAMED = r"rank {r} \(host n{h}{gpu}\), pid \d+, {how}, while {phase}"
stalls = []  # (time, delay) of each stall


def watch_stalls():
    while True:
        asleep = time.monotonic()
        time.sleep(0.01)
        late = time.monotonic() - asleep - 0.01
        if late > STALL:
            stalls.append((asleep, late))


def pid_of(run, rank):
    return next(pid for pid, (r, _) in processes(PROGRAM, run).items() if r == rank)


def kill(run, rank, number=signal.SIGKILL):
    os.kill(pid_of(run, rank), number)


def kill_at_once(run, *ranks):
    """Stops the ranks first, so that none of them reports another one's end."""
    pids = [pid_of(run, rank) for rank in ranks]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)


def kill_launcher(run, rank):
    """Kills slurmstepd on the rank's node."""
    pid = parent_of(pid_of(run, rank))
    assert b"slurmstepd" in open(f"/proc/{pid}/cmdline", "rb").read()
    os.kill(pid, signal.SIGKILL)


def link(node, way):
    subprocess.run([LAB, "node", node, "ip", "link", "set", "eth0", way], check=True)


@dataclasses.dataclass
class Case:
    name: str
    program: list  # surviving_ranks' arguments
    line: str  # the job's line or lines
    happens: object = None  # injects the failure once the ranks are in their loop; None: the program fails by itself, and prints "now"
    after: float = 0.0  # seconds until it can be detected
    mpi: str = "pmix"
    nodes: str = "n0,n1"
    exit_code: int = 75
    connected: bool = True  # to PMIx: Slurm may kill the survivors before they have ended
    srun: tuple = ()
    environment: tuple = ()
    goes_on: str = ""  # printed by survivors that go on
    saves: tuple = None  # the files that the survivors write
    warns: str = ""
    gone: tuple = ()  # ranks whose processes may remain
    lost: tuple = (3,)  # ranks that fail
    lines: int = 1
    needs: str = ""  # a file of the build that the case needs

    def run(self):
        for left in reversed(range(TRIES)):
            with cutting if self.nodes == CUT_OFF else contextlib.nullcontext():
                began = time.monotonic()
                took, wrong, output = self.run_now()
            stall = max((late for at, late in stalls if at >= began), default=0.0)
            late = not wrong and not self.goes_on and took > HOLD
            if late:
                wrong = f"the last process ended {took:.2f} s after the failure could be detected"
            if not wrong or not left or not (stall or late):
                return took, wrong, output
            print(f"again {self.name}: {wrong}, while this machine gave no CPU for {stall:.2f} s", flush=True)

    def run_now(self):
        run = self.name + "." + uuid.uuid4().hex[:8]
        fifo = Fifo(self.saves_in(run) + ".fifo", 4 - len(self.gone))
        command = [LAB, "exec", "env", *self.environment, "srun", "--overcommit", "--kill-on-bad-exit=0", f"--mpi={self.mpi}", "-w", self.nodes, "-N2", "-n4",
                   "--ntasks-per-node=2", *self.srun, PROGRAM, run, *self.program, "fifo=" + fifo.path]
        if any("%SAVE" in word for word in command):
            os.makedirs(self.saves_in(run))
            command = [word.replace("%SAVE", self.saves_in(run)) for word in command]
        srun = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        output, steady = [], threading.Event()
        reader = threading.Thread(target=self.read, args=(srun, output, steady), daemon=True)
        reader.start()
        try:
            return self.judge(run, srun, output, steady, fifo)
        except Exception as error:  # the other cases go on
            return None, f"{type(error).__name__}: {error}", output
        finally:
            self.clean_up(run, srun)
            fifo.close()
            reader.join(5)

    def saves_in(self, run):
        return os.path.join(os.environ.get("BATS_RUN_TMPDIR") or os.environ["FAILURES_FOLDER"], run)

    @staticmethod
    def read(srun, output, steady):
        for line in srun.stdout:
            output.append((time.monotonic(), line.rstrip("\n")))
            if line.strip() == "steady":
                steady.set()

    def judge(self, run, srun, output, steady, fifo):
        if self.happens is not None:
            if not steady.wait(60):
                return None, "the ranks did not get into their loop", output
            time.sleep(0.3)
            self.happens(run)
        began = time.monotonic()
        fifo.wait_for_end(began + 60)
        ended = time.monotonic()
        if self.goes_on:
            srun.wait(60)
        # Wait for srun to forward the output, and to print how the ranks ended.
        while len(self.lines_of_job(output)) < self.lines or (self.exit_code and not self.survivors(output)):
            if time.monotonic() > ended + 20:
                break
            time.sleep(0.05)
        time.sleep(0.3)  # for a surplus line
        wrong = self.faults(run, srun, output)
        if self.happens is None and not self.goes_on:
            marks = [at for at, line in output if line == "now"]
            if not marks:
                return None, "the program did not print when it fails", output
            began = marks[0]
        return ended - began - self.after, wrong, output

    def lines_of_job(self, output):
        return [line for _, line in self.job_output(output) if not re.search(r" waits\b", line)]

    def job_output(self, output):
        return [(at, line) for at, line in output if re.match(r"(surviving_ranks|muster): ", line)]

    def survivors(self, output):
        """rank → how it ended, for the ranks that did not fail."""
        return {rank: text for rank, text in endings(line for _, line in output).items() if rank not in self.lost}

    def slurm_was_first(self, output):
        """All survivors in srun's output were killed by Slurm before they could end by themselves."""
        ends = self.survivors(output).values()
        return bool(ends) and all(text.startswith(("Killed", "Terminated")) for text in ends)

    def fault_of_endings(self, output):
        ends = self.survivors(output)
        wanted = f"Exited with exit code {self.exit_code}"
        others = {rank: text for rank, text in ends.items() if text != wanted}
        if self.connected:
            others = {rank: text for rank, text in others.items() if not text.startswith(("Killed", "Terminated"))}
        if others:
            return f"the survivors ended differently: {others}"
        return "" if ends else "srun printed no survivor's end"

    def faults(self, run, srun, output):
        lines = self.lines_of_job(output)
        warnings = [text for _, text in self.job_output(output) if text not in lines]
        if len(lines) != self.lines:
            return f"{len(lines)} lines for the job, expected {self.lines}"
        if self.lines and not re.search(self.line, "\n".join(lines)):
            return f"wrong line: expected {self.line}"
        if self.warns and not (len(warnings) == 1 and re.search(self.warns, warnings[0])):
            return f"no warning, several, or a different one: expected {self.warns}"
        if not self.warns and warnings:
            return "an unexpected warning"
        if self.goes_on and not any(re.search(self.goes_on, line) for _, line in output):
            return "the survivors did not go on"
        if self.saves is not None and tuple(sorted(os.listdir(self.saves_in(run)))) != self.saves:
            return f"saved by {sorted(os.listdir(self.saves_in(run)))}"
        if self.exit_code and (fault := self.fault_of_endings(output)):
            return fault
        left = processes(PROGRAM, run)
        if [1 for rank, _ in left.values() if rank not in self.gone]:
            return f"left: {left}"
        return ""

    def clean_up(self, run, srun):
        for pid in processes(PROGRAM, run):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.nodes == CUT_OFF:
            link("n3", "up")
        try:
            srun.wait(1.5 if self.happens else 5)
        except subprocess.TimeoutExpired:
            srun.terminate()  # lab exec forwards the signal: srun cancels its job
            try:
                srun.wait(5)
            except subprocess.TimeoutExpired:
                srun.kill()
                srun.wait()


def named(rank, how, phase="running, last call .*", gpu=""):
    return NAMED.format(r=rank, h=rank // 2, how=how, phase=phase, gpu=gpu)


def ended_as(how):
    """The text for the end of a rank that is not its host's leader. Kernels before 6.15 may inform only the parent."""
    informs_all = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups())) >= (6, 15)
    return re.escape(how) if informs_all else rf"(?:{re.escape(how)}|ended without leaving the job)"


GPU = r", GPU [0-9a-f:.]+"
KILLED = ended_as("was killed by signal 9 (Killed)")
EITHER = r"ended or broke its connection without leaving the job \(.*\)"
AWAY = rf"is silent for {SILENCE:.0f} s: it is stopped, or its host or the way to it is down"
SOON = f"silence={SILENCE * 1000:.0f}"
OVER = ["survive", SOON]
DOUBLES = [f"MUSTER_CUDA_LIBRARY={BUILD}/tests/unit/runtime/libfake_cuda.so", f"MUSTER_NCCL_LIBRARY={BUILD}/tests/unit/runtime/libfake_nccl.so"]
# Ranks whose NCCL communicators reduce, through files that all of them share.
ON_DOUBLES = {"srun": ("--gpus-per-node=2",), "environment": (*DOUBLES, "FAKE_NCCL_FOLDER=%SAVE"), "needs": f"{BUILD}/tests/unit/runtime/libfake_nccl.so"}
ON_WORLD = r"running, last call all_reduce \(operation \d+ on communicator 'world'\)"
# Its last report may be the first operation, before the loop.
ON_WORLD_OR_LATER = ON_WORLD.replace("call ", "call (?:first )?") + "(?: or later)?"
# Then Slurm does not see that a rank is lost, and ends nothing.
NO_PMIX = {"mpi": "none", "connected": False}
SLURMSTEPD = r"slurmstepd, pid \d+, which started rank [23] \(host n1\), ended"
STEP = r"running, last call all_reduce \(operation \d+ on communicator 'host'\)"
# For a rank on another host: its last report.
STEP_OR_LATER = r"running, last call (?:setting up|all_reduce) \(operation \d+ on communicator 'host'\) or later"

CASES = [
    # First, because it takes longest.
    Case("stopped_by_default", ["steady"], named(3, "is stopped, silent for 10 s", STEP), lambda run: kill(run, 3, signal.SIGSTOP), after=10.0),
    Case("killed", ["steady"], named(3, KILLED, STEP, GPU), lambda run: kill(run, 3), srun=("--gpus-per-node=2", "--muster")),
    Case("killed_over_pmix", ["steady", *OVER], named(3, KILLED), lambda run: kill(run, 3), connected=False),
    Case("exits", ["exits:3"], named(3, ended_as("ended with exit code 0 without leaving the job"), STEP)),
    Case("stopped", ["steady", *OVER], named(3, rf"is stopped, silent for {SILENCE:.0f} s"), lambda run: kill(run, 3, signal.SIGSTOP), after=SILENCE,
         connected=False),
    Case("stopped_in_open_mpi", ["steady", SOON], named(3, rf"is stopped, silent for {SILENCE:.0f} s", STEP), lambda run: kill(run, 3, signal.SIGSTOP),
         after=SILENCE),
    Case("stopped_leader", ["steady", *OVER], named(2, f"(?:{AWAY}|{EITHER})"), lambda run: kill(run, 2, signal.SIGSTOP), after=SILENCE, connected=False,
         lost=(2,)),
    # 2 s to join, and 2 s in which the other ranks report the present ones.
    Case("absent", ["absent:3", "join=2000"], after=4.0, line=r"join: 1 of 4 ranks missing after 2 s: rank 3 \(host n1\) .*sent no hello", gone=(3,)),
    Case("nccl", ["nccl:3", "join=20000"],
         rf"rank 3 \(host n1, GPU [^)]*\), pid \d+, {ended_as('was killed by signal 14 (Alarm clock)')}, while setting up NCCL",
         after=0.3, srun=("--gpus-per-node=2",), environment=DOUBLES, needs=f"{BUILD}/tests/unit/runtime/libfake_nccl.so"),
    # The GPU gets three quarters of the join's time, so that the others get the error in time.
    Case("sick_gpu", ["sick_gpu:3", "join=8000"],
         r"rank 3 \(host n1\): a GPU was asked for but cannot be used: it did not answer within 6 s: see nvidia-smi and dmesg there", after=10.0, mpi="none",
         exit_code=69, lost=(), environment=DOUBLES, needs=f"{BUILD}/tests/unit/runtime/libfake_nccl.so"),
    Case("killed_on_gpus", ["steady", "doubles"], named(3, KILLED, ON_WORLD, GPU), lambda run: kill(run, 3), **ON_DOUBLES),
    Case("exits_on_gpus", ["exits:3", "doubles"], named(3, ended_as("ended with exit code 0 without leaving the job"), ON_WORLD, GPU), **ON_DOUBLES),
    Case("link", ["steady", "barrier", *OVER], rf"rank 2 \(host n3\), pid \d+, {AWAY}", lambda run: link("n3", "down"), after=SILENCE, nodes=CUT_OFF,
         connected=False, lost=(2, 3)),
    Case("link_in_open_mpi", ["steady", SOON], rf"rank 2 \(host n3\), pid \d+, {AWAY}, while {STEP_OR_LATER}", lambda run: link("n3", "down"), after=SILENCE,
         nodes=CUT_OFF, lost=(2, 3)),
    Case("launcher", ["steady", "barrier"], SLURMSTEPD, lambda run: kill_launcher(run, 3), lost=(2, 3)),
    Case("launcher_in_open_mpi", ["steady"], SLURMSTEPD, lambda run: kill_launcher(run, 3), lost=(2, 3)),
    Case("rank_0", ["steady", *OVER], named(0, EITHER), lambda run: kill(run, 0), connected=False, lost=(0,)),
    Case("rank_0_in_open_mpi", ["steady"], named(0, EITHER, STEP_OR_LATER), lambda run: kill(run, 0), lost=(0,)),
    # The rank that would report the loss of rank 0 is lost, too.
    Case("rank_0_and_leader", ["steady", "barrier", *OVER], rf"rank [02] \(host n[01]\), pid \d+, (?:{KILLED}|{EITHER})", lambda run: kill_at_once(run, 0, 2),
         connected=False, lost=(0, 2)),
    Case("rank_0_and_leader_in_open_mpi", ["steady"], rf"rank [02] \(host n[01]\), pid \d+, (?:{KILLED}|{EITHER})", lambda run: kill_at_once(run, 0, 2),
         lost=(0, 2)),
    # The rank of its host that Open MPI connects to other hosts' ranks.
    Case("leader_in_open_mpi", ["steady"], named(2, EITHER, STEP_OR_LATER), lambda run: kill(run, 2), lost=(2,)),
    Case("differs", ["differs:2", "stall=1000"],
         r"operation \d+ on communicator 'host': rank 2 \(host n1\) called broadcast of 1000 float64, root 0, but rank 0 .* "
         r"called all_reduce of 1000 float64, sum: all ranks must make the same calls",
         after=1.0, exit_code=64, lost=()),
    Case("exits_without_pmix", ["exits:3", "barrier"], named(3, ended_as("ended with exit code 0 without leaving the job")), **NO_PMIX),
    Case("stopped_without_pmix", ["steady", "barrier", SOON], named(3, rf"is stopped, silent for {SILENCE:.0f} s"),
         lambda run: kill(run, 3, signal.SIGSTOP), after=SILENCE, **NO_PMIX),
    Case("link_without_pmix", ["steady", "barrier", SOON], rf"rank 2 \(host n3\), pid \d+, {AWAY}", lambda run: link("n3", "down"), after=SILENCE, nodes=CUT_OFF,
         lost=(2, 3), **NO_PMIX),
    Case("launcher_without_pmix", ["steady", "barrier"], SLURMSTEPD, lambda run: kill_launcher(run, 3), lost=(2, 3), **NO_PMIX),
    Case("rank_0_without_pmix", ["steady", "barrier"], named(0, EITHER), lambda run: kill(run, 0), lost=(0,), **NO_PMIX),
    Case("stopped_on_gpus", ["steady", "doubles", SOON], named(3, rf"is stopped, silent for {SILENCE:.0f} s", ON_WORLD, GPU),
         lambda run: kill(run, 3, signal.SIGSTOP), after=SILENCE, **ON_DOUBLES),
    Case("rank_0_on_gpus", ["steady", "doubles"], named(0, EITHER, ON_WORLD_OR_LATER, GPU), lambda run: kill(run, 0), lost=(0,), **ON_DOUBLES),
    Case("computes", ["steady", "computes", *OVER], named(3, KILLED), lambda run: kill(run, 3), connected=False),
    # Slurm kills the step before abort_grace has passed.
    Case("computes_over_pmix", ["steady", "computes"], named(3, KILLED), lambda run: kill(run, 3)),
    Case("saves", ["steady", "save=%SAVE", *OVER], named(3, KILLED), lambda run: kill(run, 3), connected=False, saves=("0", "1", "2")),
    Case("late", ["late:3", "steps=20", "stall=2000"], "", goes_on="steady", lines=0, exit_code=0,
         warns=r"rank [012] .* waits for 2 s in all_reduce \(operation \d+ on communicator 'host'\); not entered by rank 3 \(host n1\), whose last call there was all_reduce"),
    Case("shrinks", ["steady", "shrink", *OVER], named(3, KILLED), lambda run: kill(run, 3), goes_on="going on with 3 on control-plane", exit_code=0),
    Case("shrinks_without_rank_0", ["steady", "shrink", *OVER], named(0, EITHER), lambda run: kill(run, 0), goes_on="going on with 3 on control-plane",
         exit_code=0, lost=(0,)),
    Case("shrinks_by_a_node", ["steady", "shrink", *OVER], r"rank [23] \(host n1\), pid \d+, ", lambda run: [kill(run, r) for r in (3, 2)],
         goes_on="going on with 2 on control-plane", exit_code=0, lost=(2, 3)),
    Case("shrinks_on_gpus", ["steady", "doubles", "shrink", *OVER], named(3, KILLED, ON_WORLD, GPU), lambda run: kill(run, 3),
         goes_on="going on with 3 on nccl", exit_code=0, **ON_DOUBLES),
    # The second lost rank has a different number by then.
    Case("shrinks_twice_on_gpus", ["later:2", "doubles", "shrink", *OVER],
         named(0, EITHER, gpu=GPU) + r"\n.*" + NAMED.format(r=1, h=1, gpu=GPU, how=f"(?:{KILLED}|{EITHER})", phase="running, last call .*"), lambda run: kill(run, 0),
         goes_on="going on with 2 on nccl", exit_code=0, lost=(0, 2), lines=2, **ON_DOUBLES),
    Case("shrinks_again_on_gpus", ["again:2", "doubles", "shrink", *OVER], named(3, KILLED, gpu=GPU) + r"\n.*" + named(2, EITHER, ".*", GPU),
         lambda run: kill(run, 3), goes_on="going on with 2 on nccl", exit_code=0, lost=(2, 3), lines=2, **ON_DOUBLES),
]


def slurm_has_pmix():
    known = subprocess.run([LAB, "exec", "srun", "--mpi=list"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    return re.search(r"\bpmix\b", known.stdout) is not None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--side-by-side", type=int, default=1)
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    chosen = [case for case in CASES if not options.cases or case.name in options.cases]
    failed, print_lock = [], threading.Lock()
    pmix = slurm_has_pmix()
    threading.Thread(target=watch_stalls, daemon=True).start()

    def go(case):
        lacking = ""
        if case.needs and not os.path.exists(case.needs):
            lacking = f"{case.needs} is missing: this build has no CUDA"
        elif not pmix and {"doubles", "barrier"} & set(case.program):  # over NCCL or the control plane
            case = dataclasses.replace(case, **NO_PMIX)
        elif case.mpi == "pmix" and not pmix:
            lacking = "this Slurm has no mpi/pmix"
        if lacking:
            with print_lock:
                print(f"skipped {case.name}: {lacking}", flush=True)
            return
        times, wrongs = [], []
        slurm_first = 0
        for _ in range(options.times):
            took, wrong, output = case.run()
            times.append(took if took is not None else float("inf"))
            slurm_first += case.slurm_was_first(output)
            if wrong:
                wrongs.append(wrong)
                with print_lock:
                    print(f"# {case.name}: {wrong}", *(f"#   {at - output[0][0]:6.2f} s  {line}" for at, line in output), sep="\n", flush=True)
        times.sort()
        with print_lock:
            print(f"{'FAILED' if wrongs else 'ok'} {case.name}: {options.times - len(wrongs)} of {options.times}, gone after {times[0]:.2f} / "
                  f"{times[len(times) // 2]:.2f} / {times[-1]:.2f} s"
                  + (f"; Slurm killed the survivors first {slurm_first} times" if slurm_first else ""), flush=True)
        if wrongs:
            failed.append(case.name)

    with concurrent.futures.ThreadPoolExecutor(options.side_by_side) as pool:
        list(pool.map(go, chosen))
    return 1 if failed else 0


sys.exit(main())
