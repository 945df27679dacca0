# SPDX-License-Identifier: Apache-2.0
"""The kinds of elastic_ranks.py in which new processes join a run."""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess

from elastic_training import DEADLINE, JOINED, LOST, NOTHING_BETWEEN, Run, count_ranks, tensors_of


def start_longer(arguments, folder, steps, options=()):
    """A run of so many steps, after the first of them, and its arguments."""
    longer = argparse.Namespace(**{**vars(arguments), "steps": steps})
    run = Run(longer, folder.with_name(f"{folder.name}-of-{steps}"), [*options, *NOTHING_BETWEEN])
    run.await_condition("the first steps", lambda: run.last_step() >= 2)
    return longer, run


def lose_rank_1(run):
    run.send([1], signal.SIGKILL)
    run.await_condition("the loss", lambda: LOST.search(run.output()) or run.ended([1]))


def compare_with_undisturbed(longer, run, folder):
    """Makes the undisturbed run of so many steps once."""
    tensors = tensors_of(longer, run.folder)
    shutil.rmtree(run.folder)
    if longer.steps not in longer.undisturbed:
        whole = Run(longer, folder.with_name("whole-longer"), NOTHING_BETWEEN)
        whole.wait([])
        longer.undisturbed[longer.steps] = tensors_of(longer, whole.folder)
        shutil.rmtree(whole.folder)
    if tensors != longer.undisturbed[longer.steps]:
        run.fail("the last checkpoint has other bytes than that of a run that nobody left or joined")


def invite_dead_process(run, ended, slow_rank):
    """Kills the last process when it asks to join, and asks on its behalf until rank 0 has invited it."""
    pid = run.processes[-1].pid
    files = {end: lambda end=end: list(run.folder.glob(f"join/*.{pid}.{end}")) for end in ("request", "answer")}

    def is_invited():
        for request in files["request"]():
            os.utime(request)
        return files["answer"]() or ended()

    run.await_condition("the request", lambda: files["request"]() or ended(), slow_rank)
    run.send([len(run.processes) - 1], signal.SIGKILL)
    run.await_condition("the invitation", is_invited, slow_rank)


def join_again(arguments, kind, folder):
    """A rank is lost, and a new process joins. If the run ends before that, a longer one follows; once also if the job goes on without it."""
    options = ["--shard-optimizer"] if kind == "returns-sharded" else []
    spare = kind == "returns-spare"
    if kind == "returns-rank-0":
        return join_and_lead(arguments, folder)
    options.append(f"--elastic=2:{arguments.ranks - 1 if spare else arguments.ranks}")
    steps, last, goes_on_without = 5 * arguments.steps, arguments.ranks - 1, 0
    while True:
        longer, run = start_longer(arguments, folder, steps, options)
        lose_rank_1(run)
        lost = [1]
        refused = subprocess.Popen([*run.command, "--join", "--seed=77"], env=run.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        run.join()
        if kind == "returns-not":
            invite_dead_process(run, lambda: run.ended(lost), last)
            lost = [1, arguments.ranks]
        else:
            run.await_condition("the new rank", lambda: JOINED.search(run.output()) and refused.poll() is not None or run.ended(lost), last)
        if spare:
            run.send([2], signal.SIGKILL)
            lost = [1, 2]
        run.wait_for_all(lost)
        refusal = refused.communicate(timeout=DEADLINE)[1]
        goes_on_without += "grow: the job goes on as before: " in run.output()
        is_done = JOINED.search(run.output()) and (not spare or len(LOST.findall(run.output())) == 2)
        # On a busy machine the time for a growth may pass once.
        is_done = is_done or goes_on_without >= (1 if kind == "returns-not" else 2)
        if is_done and "no run is under way" not in refusal:
            break
        shutil.rmtree(run.folder)
        steps *= 3
    if (refused.returncode, refusal) != (64, "muster-train: --join: the run was started with other options\n"):
        run.fail(f"a process with other options ended with {refused.returncode}: {refusal}")
    run.wait(lost)
    if kind == "returns-not":
        if run.output().count("grow: the job goes on as before: ") + len(LOST.findall(run.output())) != 2:
            run.fail("the process that was killed when it was invited is not in one line")
    else:
        check_joined(arguments, run, spare)
    compare_with_undisturbed(longer, run, folder)


def join_and_lead(arguments, folder):
    """Two processes join, and all ranks before them are lost. If the run ends before that, a longer one follows."""
    steps = 5 * arguments.steps
    lost = list(range(arguments.ranks))
    while True:
        longer, run = start_longer(arguments, folder, steps)
        lose_rank_1(run)
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
    compare_with_undisturbed(longer, run, folder)


def join_without_memory(arguments, folder):
    """The GPU of a process that joins has no memory (of the fake GPU). If the run ends before that, a longer one follows."""
    steps = 15 * arguments.steps
    while True:
        _, run = start_longer(arguments, folder, steps)
        refused = subprocess.run([*run.command, "--join"], env=run.environment | {"FAKE_CUDA_FREE_MIB": "1"}, capture_output=True, text=True, timeout=DEADLINE)
        if "no run is under way" not in refused.stderr:
            break
        run.wait_for_all([])
        shutil.rmtree(run.folder)
        steps *= 3
    before = run.last_step()
    run.await_condition("a step without it", lambda: run.last_step() > before + 1 or run.ended([]))
    run.send([0], signal.SIGTERM)  # the other steps would show nothing
    run.wait([])
    shutil.rmtree(run.folder)
    if refused.returncode != 64 or not re.fullmatch(r"muster-train: --batch .* free on its GPU: .*\n", refused.stderr):
        run.fail(f"a process without memory on its GPU ended with {refused.returncode}: {refused.stderr}")
    if count_ranks(LOST.findall(run.output())) != 1:
        run.fail("the ranks did not go on without it in one line")


def check_joined(arguments, run, spare):
    joined = JOINED.findall(run.output())
    went_on = str(arguments.ranks - 1 if spare else arguments.ranks)
    if len(joined) != 1 or joined[0][1] != went_on or not joined[0][0].startswith(f"rank {arguments.ranks - 1} (host"):
        run.fail(f"the line about the process that joined is wrong: {joined}")
    if spare and "joined by the spare rank " not in run.output():
        run.fail("the process that joined as a spare did not replace the second lost rank")
