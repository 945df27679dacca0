# SPDX-License-Identifier: Apache-2.0
"""The checks of chaos refuse a line of a mismatch that is not true."""
import unittest

from expected_lines import SAME_CALLS, Plan
from expected_mismatches import exit_code, is_true


def plan(what, calls, communicator="host", members="0 1 2 3", culprit=1):
    return Plan.read(f"plan: rank {culprit} {what} on '{communicator}' ({members}), calls {calls}, before , after barrier", 4)


class ExpectedMismatches(unittest.TestCase):
    def accepts(self, of, *lines):
        for line in lines:
            self.assertTrue(is_true(of, line), line)

    def refuses(self, of, *lines):
        for line in lines:
            self.assertFalse(is_true(of, line), line)

    def test_calls_have_the_communicator_and_its_ranks(self):
        of = plan("call", "barrier|reduce of 31 int64, sum, root 0", "host/N.1", "3 1")
        line = "operation 1 on communicator '{}': rank 1 (host n1) called barrier, but {} (host n1) called reduce of 31 int64, sum, root 0" + SAME_CALLS
        self.accepts(of, line.format("host/12.1", "rank 3"))
        self.refuses(of, line.format("host", "rank 3"), line.format("host/1.0", "rank 3"), line.format("host/1.1", "rank 2"),
                     line.format("host/1.1", "rank 3").replace("barrier", "broadcast"))

    def test_a_message_has_both_sides(self):
        of = plan("message", "rank 1: a recv of 7 float32|a send of 5 uint8 on rank 2")
        line = "recv on communicator 'host', rank 1 (host n1): a recv of 7 float32 met {} on rank 2 (host n0)"
        self.accepts(of, line.format("a send of 5 uint8"), line.format("a longer send"), line.format("a send of 5 uint8").replace("recv on", "grouped messages on"))
        self.refuses(of, line.format("a send of 5 float32"), line.format("a send of 5 uint8").replace("rank 2", "rank 3"),
                     line.format("a send of 5 uint8").replace("rank 1", "rank 0"))

    def test_slices_have_both_counts(self):
        of = plan("slices", "rank 3|rank 1 sends 5 elements to this rank, whose recv_counts has 4")
        line = "all_to_all_v on communicator 'host', rank 3 (host n1): rank 1 (host n1) sends {} elements to this rank, whose recv_counts has 4"
        self.accepts(of, line.format(5))
        self.refuses(of, line.format(4), line.format(5).replace("rank 3", "rank 2"), line.format(5).replace("'host'", "'world'"))

    def test_a_lone_message_has_where_both_wait(self):
        of = plan("lone_message", "all_gather of 4 uint8|recv on rank 2")
        late = "all_gather (operation 9 on communicator 'host') did not complete within 30 s on rank {} (host h); not entered by rank {} (host h), {}"
        waits = "; rank 2 (host h) waits in message from rank 1 to rank 2 of communicator 'host' for rank 1 (host h)"
        missing = "message from rank 1 to rank 2 of communicator 'host': 1 of 2 ranks missing after 30 s: rank 1 (host h)"
        self.accepts(of, late.format(0, 2, "which is still in recv there"), late.format(3, 2, "which is still in recv there") + waits + SAME_CALLS,
                     missing + "; only rank 2 (host h) came; rank 1 is in all_gather (operation 9 on communicator 'host')",
                     "recv with rank 1 (host h) (on communicator 'host') did not complete within 30 s on rank 2 (host h); the other rank made no "
                     "matching call, or the transport between them is stuck or slow")
        self.refuses(of, late.format(2, 0, "which is still in recv there"), late.format(0, 2, "which is still in send there"),
                     late.format(0, 3, "which is still in recv there"), missing, missing.replace("from rank 1", "from rank 1 of 3"),
                     missing + "; rank 3 is in recv (operation 9 on communicator 'host')", missing + "; rank 1 is in no call of Muster's")

    def test_another_communicator_has_where_both_wait(self):
        of = plan("elsewhere", "barrier|barrier", "host/N.0")
        late = "barrier (operation {} on communicator '{}') did not complete within 30 s on rank {} (host h); not entered by {}, whose last call there " \
               "was split, now in barrier (operation 2 on communicator '{}')"
        self.accepts(of, late.format(8, "host", 1, "rank 0 (host h), rank 2 (host h) and 1 more", "host/1.0"),
                     late.format(2, "host/1.0", 0, "rank 1 (host h)", "host"),
                     "shared memory of communicator 'host/1.0': 1 of 4 ranks missing after 30 s: rank 1 (host h); rank 1 is in barrier (operation 8 on "
                     "communicator 'host')")
        self.refuses(of, late.format(8, "host", 0, "rank 1 (host h)", "host/1.0"), late.format(8, "host", 1, "rank 0 (host h)", "host"),
                     f"operation 8 on communicator 'host': rank 1 (host h) called barrier, but rank 0 (host h) called reduce{SAME_CALLS}")

    def test_ranks_may_not_answer_on_a_slow_network(self):
        of = plan("elsewhere", "barrier|barrier", "host/N.0")
        line = "shared memory of communicator 'host/2.0': 1 of 4 ranks missing after 120 s: rank 1 (host h); rank 1 is in barrier (operation 8 on " \
               "communicator 'host'); ranks 2, 3 do not answer"
        self.assertTrue(is_true(of, line, "loss"))
        self.refuses(of, line)

    def test_a_split_is_a_call_or_a_wait(self):
        of = plan("split", "split|reduce of 4 uint8, sum, root 1")
        self.accepts(of, f"operation 3 on communicator 'host': rank 1 (host h) called split, but rank 0 (host h) called reduce of 4 uint8, sum, root 1{SAME_CALLS}",
                     "split 1 of communicator 'host': 3 of 4 ranks missing after 30 s: rank 0 (host h), rank 2 (host h), rank 3 (host h); rank 0 (host h), "
                     f"rank 2 (host h), rank 3 (host h) wait in operation 9 on communicator 'host' for rank 1 (host h); rank 1 is in split (operation 9 on "
                     f"communicator 'host'){SAME_CALLS}")
        self.refuses(of, f"operation 3 on communicator 'host': rank 0 (host h) called split, but rank 1 (host h) called reduce of 4 uint8, sum, root 1{SAME_CALLS}")

    def test_a_passed_deadline_is_no_mistake_unless_the_line_says_so(self):
        late = "barrier (operation 8 on communicator 'host') did not complete within 30 s on rank 1 (host h)"
        split = plan("split", "split|barrier")
        self.assertEqual(exit_code(split, late), 75)
        self.assertEqual(exit_code(split, late + SAME_CALLS), 64)
        for of in plan("elsewhere", "barrier|barrier"), plan("lone_message", "barrier|recv on rank 2"):
            self.assertEqual(exit_code(of, late), 64)
            self.assertEqual(exit_code(of, late, "loss"), 75)
        self.assertEqual(exit_code(split, "all_to_all_v on communicator 'host', rank 0 (host h): rank 4 (host h) sends 144 elements to this rank, whose "
                                   "recv_counts has 1024"), 64)


if __name__ == "__main__":
    unittest.main()
