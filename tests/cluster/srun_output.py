# SPDX-License-Identifier: Apache-2.0
"""How tasks ended, as srun prints it."""
import re


def endings(lines):
    """rank → how it ended: "Killed", "Exited with exit code 75", … srun prints nothing for ranks with exit code 0."""
    ends = {}
    for line in lines:
        if found := re.match(r"srun: error: \S+: tasks? ([\d,-]+): (.+)", line):
            for part in found[1].split(","):
                first, _, last = part.partition("-")
                ends.update({rank: found[2] for rank in range(int(first), int(last or first) + 1)})
    return ends
