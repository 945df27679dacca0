# SPDX-License-Identifier: Apache-2.0
"""mismatches.py PROGRAM FIRST COUNT [--hosts N] [LAUNCHER...]: starts PROGRAM (mismatching_ranks) with the seeds FIRST to
FIRST + COUNT - 1. Each job must end with one line that has the two calls which differ, with exit code 64, and with no
line of a sanitizer. With --hosts the ranks take turns on so many host names (root is needed)."""
import os
import re
import subprocess
import sys

program, first, count, launcher = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
wrapper = []
if launcher and launcher[0] == "--hosts":
    wrapper = ["unshare", "--uts", "sh", "-c", f'hostname "h$((OMPI_COMM_WORLD_RANK % {launcher[1]}))" && exec "$@"', "sh"]
    launcher = launcher[2:]


def complaint(seed):
    """What is wrong with the job of this seed, or nothing."""
    job = subprocess.run([*launcher, *wrapper, program, str(seed)], capture_output=True, text=True, timeout=120)
    output = job.stdout + job.stderr
    calls = re.search(r"^calls: (.*)\|(.*)$", output, re.M)
    lines = re.findall(r"^(?:mismatching_ranks|muster): (.*)", output, re.M)
    if "Sanitizer" in output or "corruption" in output:
        return f"a memory error\n{output}"
    if not calls or len(lines) != 1:
        return f"{len(lines)} lines\n{output}"
    # The counts of an all_gather_v are not kept for long.
    named = all(f"called {call}" in lines[0] for call in calls.groups())
    if not named and not ("all_gather_v" in calls[0] and "called all_gather_v" in lines[0]):
        return f"the line has not both calls, {calls[0]}: {lines[0]}"
    if job.returncode != 64:
        return f"exit code {job.returncode}\n{output}"
    return None


failed = 0
for seed in range(first, first + count):
    if (problem := complaint(seed)) is not None:
        failed += 1
        print(f"seed {seed}: {problem}", flush=True)
print(f"{count - failed} of {count} jobs ended as they must")
sys.exit(failed != 0)
