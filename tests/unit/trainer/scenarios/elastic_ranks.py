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
one becomes rank 0; or it is dead when it is invited. One with other options is refused.

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
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from elastic_joins import join_again, join_without_memory  # noqa: E402
from elastic_training import DEADLINE, LOST, OPTIONS_ON, Run, count_ranks, tensors_of  # noqa: E402

SPARE_KINDS = ["spare", "spare-rank-0", "spare-lost", "spare-sharded", "local-sgd"]
LOCAL_SGD = ["--strategy=local-sgd", "--sync-every=5", "--optimizer=sgd", "--momentum=0"]
SHARDED_KINDS = ["sharded", "sharded-rank-0", "sharded-two", "sharded-with-copy", "spare-sharded"]
RETURN_KINDS = ["returns", "returns-sharded", "returns-spare", "returns-rank-0", "returns-not"]
GPU_KINDS = ["refused-by-gpu"]
KINDS = ["killed", "rank-0", "two", "one-after-other", "checkpoint", *SHARDED_KINDS[:-1], "too-few", *SPARE_KINDS, "at-end", "images", "stopped", *RETURN_KINDS]


def result_of(arguments, folder):
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    losses = {line["step"]: line["train_loss"] for line in metrics if "train_loss" in line}
    validations = {line["step"]: line["validation_loss"] for line in metrics if "validation_loss" in line}
    return tensors_of(arguments, folder), losses, validations


def undisturbed(arguments, folder, options=()):
    """The result of a run that loses no rank."""
    whole = Run(arguments, folder, options)
    whole.wait([])
    result = result_of(arguments, folder)
    shutil.rmtree(folder)
    return result


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
        second = time.monotonic() + chance.choice([chance.uniform(0, 0.05), chance.uniform(0.05, 0.5)])
        # Well before the end: on a fast machine all steps take half a second.
        run.await_condition("the second loss", lambda: time.monotonic() >= second or run.last_step() >= 2 * arguments.steps // 3)
        run.send(lost[1:], signal.SIGKILL)
    else:
        run.send(lost, signal.SIGSTOP if kind == "stopped" else signal.SIGKILL)
    return lost


def await_next_step(run):
    """Returns the seconds from the loss to the end of the next step."""
    from_loss = time.monotonic()
    run.await_condition("the next step", lambda: re.search(r" on, [0-9.]+ s after(?s:.*)\bstep \d+/", run.output()))
    return round(time.monotonic() - from_loss, 3)


def run_once(arguments, kind, folder, chance, expected, repeats=2):
    """Returns the seconds that the ranks needed to go on, and those from the loss to the end of the next step. If all steps were done before the
    signals and no loss is named, a longer run follows."""
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
        expected = undisturbed(arguments, folder.with_name(f"whole-{folder.name}"), [*options, f"--checkpoint-every={every}"])
    run = Run(arguments, folder, [*options, f"--checkpoint-every={every}"])
    lost = lose(arguments, run, kind, chance)
    near_end = run.last_step() >= arguments.steps - 1
    to_next_step = await_next_step(run) if arguments.output and kind != "at-end" and not near_end else None
    run.wait(lost)
    if kind == "at-end":
        check(arguments, run, expected)
        return [], None
    found = LOST.findall(run.output())
    again = folder.with_name(folder.name + "-again")
    if near_end and count_ranks(found) < len(lost) and repeats > 0:
        longer = argparse.Namespace(**{**vars(arguments), "steps": 3 * arguments.steps})
        return run_once(longer, kind, again, chance, undisturbed(longer, folder.with_name(f"whole-{again.name}")), repeats - 1)
    if not found:
        run.fail("no line about the lost ranks")
    for line in found:
        if f"rank {line[0]} (host" not in line[1]:
            run.fail(f"the line's reason is rank {line[0]}, and lost are {line[1]}")
    if kind == "local-sgd" and int(found[0][2]) == arguments.steps:
        # Nothing was computed after the loss. The checkpoint then has the moments of one rank in place of their average, as documented.
        return run_once(arguments, kind, again, chance, expected, repeats)
    if kind == "too-few":
        if '"state":"unfinished"' not in (folder / "status.json").read_text() or "stopped with 1 rank of at least 2 after step" not in run.output():
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
        expected = undisturbed(arguments, folder / "whole")
        for number in range(1, arguments.times + 1):
            kinds = arguments.kind or KINDS
            kind = kinds[(number - 1) % len(kinds)]
            seconds, to_next_step = run_once(arguments, kind, folder / f"run{number}", chance, expected)
            shutil.rmtree(folder / f"run{number}", ignore_errors=True)
            for log in folder.glob(f"run{number}*.log"):
                log.unlink()
            print(f"run {number}, {kind}: went on after {seconds} s, same bytes", flush=True)
            if arguments.output:
                with open(arguments.output, "a", encoding="utf-8") as file:
                    file.write(json.dumps({"kind": kind, "seconds": seconds, "to_next_step": to_next_step}) + "\n")
        refuse_too_many(arguments)
    finally:
        shutil.rmtree(folder)


main()
