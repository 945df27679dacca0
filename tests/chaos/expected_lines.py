# SPDX-License-Identifier: Apache-2.0
"""Whether the line of a job of chaos_ranks is true: who is lost or made another call, how it ended, and where it was."""
import dataclasses
import platform
import re

SAME_CALLS = ": all ranks must make the same calls in the same order"
LOSSES = ("kill", "kill_two", "kill_leaders", "abort", "stop", "exit")

# How a rank ended, as a rank of its host sees it.
KILLED = r"was killed by signal 9 \(Killed\)"
ENDS = {
    "kill": KILLED, "kill_two": KILLED, "kill_leaders": KILLED,
    "abort": r"was killed by signal 6 \(Aborted\)",
    "stop": rf"is stopped, silent for \S+ s|{KILLED}",  # by the first rank that notices the silence
    "exit": "ended with exit code 0 without leaving the job",
}
# As a rank of another host sees it.
BROKE = r"ended or broke its connection without leaving the job \(.*\)"
SILENT = r"is silent for \S+ s: it is stopped, or its host or the way to it is down"
# Older kernels report the status to the parent alone.
REPORTS_STATUS = tuple(map(int, re.findall(r"\d+", platform.release())[:2])) >= (6, 15)
# What a rank calls before its first step, and within one.
SETUP = {"join", "host communicator", "MPI_Init", "setting up", "shared memory", "split", "reducer's options", "reducer's layouts",
         "reducer's measurement", "reducer's memory"}


@dataclasses.dataclass
class Plan:
    """What the ranks do. `before`, `after`: the last call of each step. `what`: the fault, or the kind of a mismatch, which also has its
    communicator and the ranks there."""
    culprit: int
    second: int
    wrong: str
    right: str
    before: list
    after: list
    what: str = ""
    communicator: str = ""
    members: tuple = ()

    @classmethod
    def read(cls, output, ranks):
        found = re.search(r"^plan: rank (\d+) (\w+)(?: on '(\S+)' \((.*)\))?, calls (.*)\|(.*), before (.*), after (.*)$", output, re.M)
        if found is None:
            return None
        culprit, what, communicator, members, wrong, right, before, after = found.groups()
        return cls(int(culprit), (int(culprit) + 1) % ranks, wrong, right, before.split("|") if before else [], after.split("|"), what,
                   communicator or "", tuple(map(int, (members or "").split())))

    def calls_from_fault_on(self):
        return {name_of(self.right), *names_of(self.after), *SETUP, "leave"}


def name_of(call):
    """The name in "reduce of 31 int64" or "all_reduce (operation 1 on communicator 'host')"."""
    return re.split(r" of | \(", call)[0]


def names_of(steps):
    """By which a line may name the last call of each step: without Open MPI, messages are calls of their own."""
    return [name for step in steps for name in ([step, "send", "recv"] if step == "grouped messages" else [step])]


def is_true(fault, plan, hosts, line):
    """`hosts`: 1, or 2, where rank r is on host r modulo 2."""
    if fault == "throw":
        return line == "the culprit has a reason of its own"
    if fault == "return":
        return is_true_return(plan, line)
    if fault == "other_call":
        return is_true_mismatch(plan, line)
    return is_true_loss(fault, plan, hosts, line)


def is_true_loss(fault, plan, hosts, line):
    found = re.fullmatch(r"rank (\d+) \(host [^)]*\), pid \d+, (.*?)(?:, while (.*?), last call (.*?)( or later)?)?", line)
    if found is None:
        return False
    rank, end, phase, call, or_later = int(found[1]), *found.groups()[1:]
    if fault == "link_down":  # each side names the first rank of the other one
        return rank < hosts and re.fullmatch(SILENT, end) and (call is None or name_of(call) in {*names_of(plan.before), *plan.calls_from_fault_on()})
    if rank not in ((plan.culprit, plan.second) if fault in ("kill_two", "kill_leaders") else (plan.culprit,)):
        return False
    # Ranks of another host see the end of the first rank of a host, and have its last call from a heartbeat.
    is_first_of_host = hosts > 1 and rank < hosts
    if is_first_of_host and re.fullmatch(f"{SILENT}|{BROKE}" if fault == "stop" else BROKE, end):
        return call is None or (or_later and name_of(call) in {*names_of(plan.before), *SETUP})
    ends = ENDS[fault] if REPORTS_STATUS else f"{ENDS[fault]}|ended without leaving the job"
    last_calls = names_of(plan.before[-1:]) or ["host communicator", "setting up"]
    return re.fullmatch(ends, end) and phase == "running" and not or_later and name_of(call) in last_calls


def is_true_return(plan, line):
    """The others wait for the culprit in the call that it did not make, or in a later one that needs it."""
    found = re.fullmatch(rf"rank {plan.culprit} \(host [^)]*\) left the job while .* waits? for it in (.*): all ranks must make the same calls", line)
    return found and (found[1].startswith("operation ") or name_of(found[1]) in plan.calls_from_fault_on())


def is_true_mismatch(plan, line):
    if not line.endswith(SAME_CALLS):
        return False
    # A rank keeps the last calls without the counts of their shares.
    name = name_of(plan.right)
    if name.endswith("_v") and name == name_of(plan.wrong) and f": ranks called {name} with different arguments, or made different calls before" in line:
        return True
    parts = re.findall(r"((?:rank \d+ \(host [^)]*\)(?:, )?)+(?: and \d+ more)?) called (.*?)(?=, but rank|: all ranks)", line)
    called = {tuple(map(int, re.findall(r"rank (\d+)", ranks))): call for ranks, call in parts}
    wrong = called.pop((plan.culprit,), None)
    if wrong is None or len(called) != 1:
        return False
    [(others, right)] = called.items()
    return plan.culprit not in others and is_call(plan.wrong, wrong) and is_call(plan.right, right)


def is_call(call, text):
    return text == call or (text.endswith("_v") and text == name_of(call))


def drops_too_many(dropped, losses):
    """Of `losses` jobs by mpirun in which a rank was lost. mpirun ends all ranks then and may drop the line: in 5 of 103 such jobs."""
    return dropped > 2 + losses / 5
