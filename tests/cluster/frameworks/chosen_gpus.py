# SPDX-License-Identifier: Apache-2.0
# For the scripts in this folder: prints the GPUs that a rank uses, the ones that Muster gave it, and the sum
# over all ranks.
import os
import sys

import torch


def print_rank(rank, indexes, total):
    gpus = ",".join(torch.cuda.get_device_name(index).split()[-1] for index in indexes)  # the fake driver ends the name with the address
    own = os.environ.get("MUSTER_GPUS", "")
    sys.stdout.write(f"{rank} gpus={gpus}\n{rank} own={own}\n{rank} sum={float(total):.0f}\n")
    sys.stdout.flush()
