# SPDX-License-Identifier: Apache-2.0
"""The checks of chaos refuse a line that is not true, and too many lines that are missing."""
import unittest

from expected_lines import Plan, drops_too_many, is_true

PLAN = Plan.read("plan: rank 3 kill, calls reduce of 31 int64, sum, root 0|all_gather_v of 7+7+7+7+7 uint8, before broadcast|all_reduce, "
                 "after barrier|reduce", 5)
RANK_3 = "rank 3 (host n1), pid 207, "
ALL_REDUCE = ", while running, last call all_reduce (operation 6 on communicator 'host')"
SAME_CALLS = ": all ranks must make the same calls in the same order"


class ExpectedLines(unittest.TestCase):
    def accepts(self, fault, *lines, hosts=1, plan=PLAN):
        for line in lines:
            self.assertTrue(is_true(fault, plan, hosts, line), line)

    def refuses(self, fault, *lines, hosts=1, plan=PLAN):
        for line in lines:
            self.assertFalse(is_true(fault, plan, hosts, line), line)

    def test_a_loss_has_the_rank_its_end_and_its_last_call(self):
        killed = "was killed by signal 9 (Killed)"
        self.accepts("kill", RANK_3 + killed + ALL_REDUCE)
        self.accepts("abort", RANK_3 + "was killed by signal 6 (Aborted)" + ALL_REDUCE)
        self.accepts("stop", RANK_3 + "is stopped, silent for 5 s" + ALL_REDUCE)
        self.accepts("exit", RANK_3 + "ended with exit code 0 without leaving the job" + ALL_REDUCE)
        self.accepts("kill_two", f"rank 4 (host n1), pid 9, {killed}{ALL_REDUCE}")
        self.refuses("kill", f"rank 4 (host n1), pid 9, {killed}{ALL_REDUCE}",
                     RANK_3 + "was killed by signal 6 (Aborted)" + ALL_REDUCE,
                     RANK_3 + "ended with exit code 0 without leaving the job" + ALL_REDUCE,
                     RANK_3 + killed, RANK_3 + killed + ALL_REDUCE + " or later", RANK_3 + killed + ALL_REDUCE.replace("all_reduce", "broadcast"),
                     RANK_3 + "ended or broke its connection without leaving the job (End of file)" + ALL_REDUCE + " or later")
        self.refuses("exit", RANK_3 + "ended with exit code 1 without leaving the job" + ALL_REDUCE)

    def test_another_host_may_know_less_of_the_first_rank_of_a_host(self):
        plan = Plan(1, 2, PLAN.wrong, PLAN.right, PLAN.before, PLAN.after)
        end = "(host n1), pid 7, ended or broke its connection without leaving the job (End of file), while running, last call"
        self.accepts("kill", f"rank 1 {end} reducer's options (operation 1 on communicator 'host/1.0') or later", hosts=2, plan=plan)
        self.accepts("kill", f"rank 1 {end} broadcast or later", f"rank 1 {end} all_reduce or later", hosts=2, plan=plan)
        self.refuses("kill", f"rank 1 {end} reduce or later", f"rank 1 {end} broadcast", hosts=2, plan=plan)
        self.refuses("kill", f"rank 3 {end} broadcast or later", hosts=2)

    def test_a_link_that_is_down_has_the_first_rank_of_a_host(self):
        silent = "(host n1), pid 7, is silent for 5 s: it is stopped, or its host or the way to it is down"
        self.accepts("link_down", f"rank 0 {silent}", f"rank 1 {silent}, while running, last call barrier or later", hosts=2)
        self.refuses("link_down", f"rank 2 {silent}", f"rank 1 {silent}, while running, last call scan or later", hosts=2)

    def test_an_early_return_has_the_call_that_waits_for_it(self):
        left = "rank 3 (host n1) left the job while rank 0 (host n0) waits for it in {}: all ranks must make the same calls"
        self.accepts("return", left.format("all_gather_v (operation 5 on communicator 'host')"), left.format("operation 5 on communicator 'host'"),
                     left.format("shared memory of communicator 'host'"))
        self.refuses("return", left.format("broadcast (operation 4 on communicator 'host')"), left.format("barrier").replace("rank 3", "rank 2"))

    def test_different_calls_have_the_culprit_and_both_calls(self):
        line = "operation 5 on communicator 'host': {} called {}, but {} called {}" + SAME_CALLS
        one, others = "rank 3 (host n1)", "rank 0 (host n0), rank 1 (host n0) and 1 more"
        self.accepts("other_call", line.format(one, PLAN.wrong, others, PLAN.right), line.format(others, "all_gather_v", one, PLAN.wrong))
        self.refuses("other_call", line.format(one, PLAN.right, others, PLAN.wrong), line.format("rank 2 (host n0)", PLAN.wrong, others, PLAN.right),
                     line.format(one, "reduce", others, PLAN.right), line.format(one, PLAN.wrong, f"{one}, rank 0 (host n0)", PLAN.right),
                     f"communicator 'host': before operation 5, ranks made different calls{SAME_CALLS}")

    def test_arguments_may_be_missing_of_two_calls_with_shares_alone(self):
        line = f"operation 5 on communicator 'host': ranks called {{}} with different arguments, or made different calls before (…){SAME_CALLS}"
        shares = Plan(3, 4, "all_gather_v of 1+1+1+1+1 uint8", "all_gather_v of 7+7+7+7+7 uint8", [], [])
        reduce = Plan(3, 4, "reduce of 1 uint8, sum, root 0", "reduce of 7 uint8, sum, root 0", [], [])
        self.accepts("other_call", line.format("all_gather_v"), plan=shares)
        self.refuses("other_call", line.format("reduce_scatter_v"), plan=shares)
        self.refuses("other_call", line.format("reduce"), plan=reduce)
        self.refuses("other_call", line.format("all_gather_v"))


class DroppedLines(unittest.TestCase):
    def test_a_few_may_be_dropped(self):
        self.assertFalse(drops_too_many(0, 0))
        self.assertFalse(drops_too_many(2, 2))
        self.assertFalse(drops_too_many(5, 103))

    def test_not_all_may_be(self):
        self.assertTrue(drops_too_many(3, 3))
        self.assertTrue(drops_too_many(25, 100))


if __name__ == "__main__":
    unittest.main()
