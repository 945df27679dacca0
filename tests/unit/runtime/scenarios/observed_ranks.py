# SPDX-License-Identifier: Apache-2.0
"""observed_ranks.py PROGRAM WHAT [LAUNCHER...]: starts PROGRAM (observed_ranks) and checks the timeline and the metrics that it
leaves. LAUNCHER ends with the number of ranks. AHEAD="HOST SECONDS" tells whose clock is ahead of rank 0's, and by how much."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from prometheus_text import parse

program, what, launcher = sys.argv[1], sys.argv[2], sys.argv[3:]
ranks = int(launcher[-1]) if launcher else 1
folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-observed-"))
trace_file = folder / "trace.json"


def run(scenario, status=0, **environment):
    """What the job said."""
    command = [*launcher, program, scenario]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300)
    assert (done.returncode == 0) == (status == 0), f"exit code {done.returncode}: {done.stderr}"
    _, is_second, stderr = done.stderr.rpartition("mpirun_with_retry: once more\n")
    if is_second:  # what the first job printed is there, too
        done.stderr = stderr
        done.stdout = done.stdout[done.stdout.rindex(done.stdout.partition("\n")[0]):]
    return done


def read_trace():
    trace = json.loads(trace_file.read_text())
    spans, notes = {rank: [] for rank in range(ranks)}, {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            spans[event["pid"]].append(event)
        else:
            assert event["ph"] == "M", event
            notes.setdefault(event["name"], {})[event["pid"]] = event["args"]
    return spans, notes


def check_nesting(spans):
    """Spans of a thread lie inside one another or apart; in nanoseconds, for the file has decimals."""
    threads = {}
    for span in spans:
        begin = round(span["ts"] * 1000)
        threads.setdefault(span["tid"], []).append((begin, -round(span["dur"] * 1000), span["name"]))
        assert span["dur"] >= 0, span
    for thread in threads.values():
        inside = []
        for begin, negative, name in sorted(thread):
            while inside and inside[-1] <= begin:
                inside.pop()
            assert not inside or begin - negative <= inside[-1], f"{name} overlaps another"
            inside.append(begin - negative)


def parent_of(span, spans):
    around = [s for s in spans if s is not span and s["tid"] == span["tid"] and s["ts"] <= span["ts"]
              and s["ts"] + s["dur"] >= span["ts"] + span["dur"]]
    return max(around, key=lambda s: s["ts"], default=None)


def check_clocks(notes):
    """One kernel has one clock: whatever is found is within half of the round trip, beside what AHEAD tells."""
    host, _, seconds = os.environ.get("AHEAD", "").partition(" ")
    ahead_ranks = 0
    for rank, note in notes["muster_rank"].items():
        assert note["clock_measured"], f"rank {rank}"
        ahead = seconds != "" and f"(host {host}" in notes["process_name"][rank]["name"]
        ahead_ranks += ahead
        wrong = abs(note["clock_offset_ns"]) - (float(seconds) * 1e9 if ahead else 0)
        assert abs(wrong) <= note["clock_round_trip_ns"] / 2 + 1000, note
    assert (ahead_ranks > 0) == (seconds != ""), "no rank on the host whose clock is ahead"


def check_steps():
    run("steps", MUSTER_TIMELINE=str(trace_file))
    spans, notes = read_trace()
    assert list(folder.iterdir()) == [trace_file], "a partial file was left"
    check_clocks(notes)
    assert notes["muster_trace"][0] == {"ranks": ranks, "lacking": 0}, notes["muster_trace"]
    for rank in range(ranks):
        assert notes["process_name"][rank]["name"].startswith(f"rank {rank} (host "), notes["process_name"]
        assert notes["muster_rank"][rank]["dropped"] == 0
        names = [span["name"] for span in spans[rank]]
        for name, count in {"join": 1, "step": 10, "forward": 10, "backward": 10, "all_reduce": 10, "load": 1, "split": 1}.items():
            assert names.count(name) == count, f"rank {rank} has {names.count(name)} spans {name}, not {count}"
        check_nesting(spans[rank])
        assert len({span["tid"] for span in spans[rank]}) == 2
        reductions = [span for span in spans[rank] if span["name"] == "all_reduce"]
        assert all(span["args"]["bytes"] == 4000 for span in reductions)
        assert all(parent_of(span, spans[rank])["name"] == "backward" for span in reductions)
        phases = [span for span in spans[rank] if span["cat"] == "phase"]
        join = next(span for span in phases if span["name"] == "join")
        assert any(parent_of(span, phases) is join for span in phases)
    # On the common clock nobody leaves an operation of the whole group before everybody has come.
    slack = max(note["clock_round_trip_ns"] for note in notes["muster_rank"].values()) / 1000 + 1
    together = {}
    for rank in range(ranks):
        for span in spans[rank]:
            if span["name"] == "all_reduce" and ranks > 1:
                together.setdefault(span["args"]["number"], []).append(span)
    assert all(len(group) == ranks for group in together.values())
    for group in together.values():
        assert max(s["ts"] for s in group) <= min(s["ts"] + s["dur"] for s in group) + slack, group


def check_reduces():
    run("reduces", MUSTER_TIMELINE=str(trace_file), MUSTER_METRICS=str(folder / "%r.prom"))
    spans, _ = read_trace()
    for rank in range(ranks):
        check_nesting(spans[rank])
        buckets = [span for span in spans[rank] if span["cat"] == "bucket"]
        assert all(span["name"] == "bucket" and span["args"]["communicator"] != "world" for span in buckets) or ranks == 1
        sizes = [(span["args"]["bucket"], span["args"]["bytes"]) for span in sorted(buckets, key=lambda span: span["ts"])]
        assert sizes == 5 * [(0, 400), (1, 400), (2, 200)], sizes
        # Each has its one operation inside, beside the program's thread; alone nothing is to be done.
        reductions = [span for span in spans[rank] if span["name"] == "all_reduce"]
        assert len(reductions) == (15 if ranks > 1 else 0)
        assert [parent_of(span, spans[rank])["args"]["bytes"] for span in reductions] == [span["args"]["bytes"] for span in reductions]
        assert all(parent_of(span, spans[rank])["cat"] == "bucket" for span in reductions)
        program = {span["tid"] for span in spans[rank] if span["name"] == "step"}
        assert (program == {span["tid"] for span in buckets}) == (ranks == 1)
        # Counted once: as the operation.
        families = parse((folder / f"{rank}.prom").read_text())
        assert value(families, "muster_operations_total", operation="all_reduce") == len(reductions)
        assert value(families, "muster_operation_bytes_total", operation="all_reduce") == sum(span["args"]["bytes"] for span in reductions)
        total = sum(number for number in families["muster_operation_bytes_total"][1].values())
        assert total == sum(span["args"]["bytes"] for span in reductions), total


def check_flood():
    run("flood", MUSTER_TIMELINE=str(trace_file))
    spans, notes = read_trace()
    last = ranks - 1
    assert notes["muster_trace"][0] == {"ranks": ranks, "lacking": 0}, notes["muster_trace"]
    dropped = notes["muster_rank"][last]["dropped"]
    assert dropped > 0 and list(notes["process_labels"]) == [last] and str(dropped) in notes["process_labels"][last]["labels"]
    # The newest are kept, and the phases.
    names = [span["name"] for span in spans[last]]
    assert {"join", "split"} <= set(names) and names.count("flood") + dropped >= 300000
    check_nesting(spans[last])


def check_killed():
    # A survivor may answer too late on a busy machine, or mpirun may end it before: then the job is run again.
    for _ in range(5):
        trace_file.unlink(missing_ok=True)
        run("killed", status=75, MUSTER_TIMELINE=str(trace_file))
        if trace_file.exists() and read_trace()[1]["muster_trace"][0]["lacking"] <= 1:
            break
    spans, notes = read_trace()
    assert notes["muster_trace"][0] == {"ranks": ranks, "lacking": 1}
    for rank in range(ranks - 1):
        assert any(span["name"] == "all_reduce" for span in spans[rank]), f"nothing of rank {rank}"
        check_nesting(spans[rank])
    assert spans[ranks - 1] == []


def check_refused():
    said = run("steps", MUSTER_TIMELINE=str(folder / "none" / "trace.json"), MUSTER_METRICS="/proc/none/muster.prom").stderr
    lines = said.splitlines()
    assert sum("MUSTER_TIMELINE: " in line and "No such file or directory" in line for line in lines) == 1, said
    assert sum("MUSTER_METRICS: " in line and "goes on without it" in line for line in lines) == 1, said
    assert len(lines) == 2, said


def value(families, family, **labels):
    found = [value for of, value in families[family][1].items() if labels.items() <= dict(of).items()]
    assert len(found) == 1, (family, labels, found)
    return found[0]


def check_metrics():
    said = run("asks", MUSTER_METRICS=str(folder / "muster.prom"), MUSTER_LOG="info")
    files = sorted(path.name for path in folder.iterdir())
    assert files == (["muster.prom"] if ranks == 1 else [f"muster.{rank}.prom" for rank in range(ranks)]), files
    for rank, name in enumerate(files):
        families = parse((folder / name).read_text())
        assert set(families) == {"muster_operations_total", "muster_operation_bytes_total", "muster_operation_seconds_total",
                                 "muster_last_operation_number", "muster_last_operation_bytes", "muster_in_operation"}
        assert value(families, "muster_operations_total", rank=str(rank), operation="all_reduce") == 10
        assert value(families, "muster_operation_bytes_total", operation="all_reduce") == 40000
        assert value(families, "muster_operation_seconds_total", operation="all_reduce") > 0
        assert value(families, "muster_in_operation") == 0
        assert value(families, "muster_last_operation_number", operation="barrier") >= (1 if ranks > 1 else 0)
    asked = parse(said.stdout)
    assert value(asked, "muster_operations_total", rank=str(ranks - 1), operation="broadcast") == 10
    summaries = [line for line in said.stderr.splitlines() if " operations, " in line]
    assert len(summaries) == ranks and all("last barrier" in line for line in summaries), said.stderr


try:
    {"steps": check_steps, "reduces": check_reduces, "flood": check_flood, "killed": check_killed, "refused": check_refused,
     "metrics": check_metrics}[what]()
finally:
    subprocess.run(["rm", "-rf", str(folder)], check=True)
print("as expected")
