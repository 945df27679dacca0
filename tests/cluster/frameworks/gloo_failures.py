#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gloo_failures.py N [CASE...]: four ranks with gloo over muster:// lose rank 1 in each of several ways, N times each. Prints a table of the seconds until
the last of the others has ended, and ends with 1 if one of them did not end as it must. The ranks are forked, so that PyTorch is imported once."""
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import muster.torch

RANKS, HEARTBEAT, DEADLINE, LIMIT = 4, 2, 6, 40
KILLED = "rank 1 .*was killed by signal 9"
CASES = {  # its exit code, what the line says, and the seconds until the others can notice it
    "killed in init": (-9, KILLED, 0),
    "killed in training": (-9, KILLED, 0),
    "stopped": (-9, "rank 1 .*is stopped", HEARTBEAT),
    "raises an exception": (1, "ValueError: on purpose", 0),
    "leaves without destroy": (0, None, 0),
}


def do(case, event):
    """What the lost rank does."""
    os.write(event, b"%.6f\n" % time.monotonic())
    if case.startswith("killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    if case == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if case == "raises an exception":
        raise ValueError("on purpose")
    sys.exit(0)


def train(case, event):
    job = muster.torch.watch(heartbeat_timeout=HEARTBEAT, deadline=DEADLINE)
    if case == "killed in init":
        if job.rank == 1:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            os.write(event, b"%.6f\n" % (time.monotonic() + 0.5))
            if os.fork() == 0:  # kills its parent, which waits in init_process_group
                time.sleep(0.5)
                os.kill(os.getppid(), signal.SIGKILL)
                os._exit(0)
        if job.rank == RANKS - 1:
            time.sleep(LIMIT)  # never comes there
    dist.init_process_group("gloo", init_method="muster://")
    gradients = torch.ones(1000)
    for step in range(10 if case == "leaves without destroy" else 10**9):
        dist.all_reduce(gradients)
        gradients /= RANKS
        if step == 9 and job.rank == 1:
            do(case, event)


def become_rank(rank, port, output):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))
    for stream in (1, 2):
        os.dup2(output.fileno(), stream)


def wait_for(pids):
    """The ranks' exit codes, and when the last but rank 1 ended. Ranks that run for too long are killed."""
    codes, last, until = [None] * RANKS, 0, time.monotonic() + LIMIT
    while None in codes:
        for rank, pid in enumerate(pids):
            if codes[rank] is None and (found := os.waitpid(pid, os.WNOHANG))[0]:
                codes[rank] = os.waitstatus_to_exitcode(found[1])
                last = last if rank == 1 else time.monotonic()
        if time.monotonic() > until:
            for rank, pid in enumerate(pids):
                if codes[rank] is None:
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return codes, last


def judge(case, codes, text):
    """What is wrong with a run, if anything."""
    own, said, _ = CASES[case]
    others = 0 if said is None else 75
    if codes != [own if rank == 1 else others for rank in range(RANKS)]:
        return f"exit codes {codes}"
    lines = [line for line in text.splitlines() if re.match(r"gloo_failures: |muster: |\[rank1\]: ValueError", line)]
    if said is None:
        return f"printed {text!r}" if text else ""
    return "" if len(lines) == 1 and re.search(said, lines[0]) else f"lines {lines}"


def run_often(times, cases):
    """Returns the case and the place for the event in a rank, and ends in the process that starts them."""
    wrong = 0
    print("| case | s: least / median / greatest | right |\n|---|---|---|", flush=True)
    for case in cases:
        seconds = []
        for _ in range(times):
            event, written = os.pipe()
            port = random.randrange(5000, 15000) * 2
            with tempfile.TemporaryFile() as output:
                pids = []
                for rank in range(RANKS):
                    pids.append(os.fork())
                    if not pids[-1]:
                        become_rank(rank, port, output)
                        return case, written
                codes, last = wait_for(pids)
                output.seek(0)
                problem = judge(case, codes, output.read().decode(errors="replace"))
            os.close(written)
            with os.fdopen(event) as at:
                took = last - float(at.read() or "nan") - CASES[case][2]
            if problem:
                wrong += 1
                print(f"{case}: {problem}", file=sys.stderr, flush=True)
            else:
                seconds.append(took)
        figures = f"{min(seconds):.2f} / {statistics.median(seconds):.2f} / {max(seconds):.2f}" if seconds else "-"
        print(f"| {case} | {figures} | {len(seconds)} of {times} |", flush=True)
    sys.exit(1 if wrong else 0)


torch.set_num_threads(1)
rank_of = run_often(int(sys.argv[1]), sys.argv[2:] or CASES)
sys.argv = ["gloo_failures"]
train(*rank_of)
