# SPDX-License-Identifier: Apache-2.0
"""Whether the line of a job of chaos_ranks is true in which ranks differ in another way than by a call on the world (mismatch.cpp)."""
import re

from expected_lines import SAME_CALLS, is_true_mismatch, name_of

# In these, ranks may wait for each other until the deadline; and in these they always do.
MAY_END_AT_DEADLINE = ("split", "lone_message", "elsewhere")
END_AT_DEADLINE = ("lone_message", "elsewhere")
RANKS = r"ranks? \d+(?:, (?:rank )?\d+)*(?: and \d+ more)?"


def is_true(plan, line, network=""):
    """On a slow network, ranks may not answer rank 0 in time."""
    text = re.sub(r" \(host [^)]*\)", "", line)
    if network:
        text = re.sub(rf"; ({RANKS} do(es)? not answer|no answer from {RANKS})", "", text)
    where = on(plan.communicator)
    if plan.what == "slices":
        return re.fullmatch(rf"all_to_all_v {where}, {plan.wrong}: {plan.right}", text)
    if plan.what == "message":
        return re.fullmatch(rf"(recv|grouped messages) {where}, {plan.wrong} met ({plan.right}|a longer send on rank \d+)", text)
    if plan.what in MAY_END_AT_DEADLINE and is_true_wait(plan, text):
        return True
    is_there = re.match(rf"(operation \d+|\w+) {where}(: |, rank \d+: )", text) and ranks_in(text) <= set(plan.members)
    return plan.what not in END_AT_DEADLINE and is_there and is_true_mismatch(plan, line)


def exit_code(plan, line, network=""):
    """75 where rank 0 may not learn for whom a rank waits: in grouped messages, which may follow a split, and on a slow network."""
    is_known = plan.what in END_AT_DEADLINE and not network
    return 64 if is_known or line.endswith(SAME_CALLS) or " did not complete " not in line and " missing after " not in line else 75


def is_true_wait(plan, line):
    """Each rank that the line has waits in its call, and the line has both calls."""
    odd, calls = find_waits(plan)
    head, *clauses = line.removesuffix(SAME_CALLS).split("; ")
    said = claims(head, clauses)
    if said is None:
        return False
    is_odd = [bool(re.fullmatch(calls[True], call)) if rank is None else rank == odd for rank, call in said]
    is_known = all(re.fullmatch(calls[of_odd], call) and (rank is None or rank in plan.members) for (rank, call), of_odd in zip(said, is_odd))
    is_message = plan.what == "lone_message" and "the other rank made no matching call" in line
    return is_known and (is_message or set(is_odd) == {False, True})


def find_waits(plan):
    """The rank that waits in a call of its own, and what the others and that rank wait in."""
    there = on(plan.communicator)
    if plan.what == "lone_message":
        kind, rank = re.fullmatch(r"(\w+) on rank (\d+)", plan.right).groups()
        message = rf"message from rank \d+ to rank \d+ of {there[3:]}|{kind}( with rank {plan.culprit})?( \((operation \d+ )?{there}\))?"
        return int(rank), (in_call(plan.wrong, there), message)
    return plan.culprit, (in_call(plan.right, there), in_call(plan.wrong, there if plan.what == "split" else on("host")))


def in_call(call, where):
    name = name_of(call)
    round_of = rf"split \d+ of {where[3:]}" if name == "split" else rf"operation \d+ {where}|(use of )?shared memory of {where[3:]}"
    return rf"{round_of}|{name}( \(operation \d+ {where}\))?"


def claims(head, clauses):
    """(rank, call) of all ranks whose call a line has; None if it says more. The rank is None of a call that others miss."""
    said = []
    if found := re.fullmatch(r"(.*) did not complete within \S+ s on rank (\d+)", head):
        said.append((int(found[2]), found[1]))
    elif found := re.fullmatch(rf"(.*): \d+ of \d+ ranks missing after \S+ s: {RANKS}", head):
        said.append((None, found[1]))
    else:
        return None
    for clause in clauses:
        if clause.startswith("the other rank made no matching call"):
            continue
        parts = re.fullmatch(rf"only (?P<ranks>{RANKS}) came|not entered by (?P<ranks1>{RANKS}), (?:which is still in (?P<call1>\w+) there"
                             rf"|whose last call there was [\w ]+, now in (?P<call2>.*))|(?P<ranks2>{RANKS}) (?:waits?|is|are) in (?P<call3>.*?)(?: for {RANKS})?",
                             clause)
        if parts is None:
            return None
        ranks = parts["ranks"] or parts["ranks1"] or parts["ranks2"]
        call = parts["call1"] or parts["call2"] or parts["call3"] or found[1]
        said += [(rank, call) for rank in ranks_in(ranks)]
    return said


def ranks_in(text):
    """Those of "rank 1, rank 2" and "ranks 1, 2"."""
    return {int(number) for ranks in re.findall(r"ranks? (\d+(?:, \d+)*)", text) for number in ranks.split(", ")}


def on(communicator):
    return rf"on communicator '{re.escape(communicator)}'".replace("/N", r"/\d+")
