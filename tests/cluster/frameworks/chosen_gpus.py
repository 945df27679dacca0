# SPDX-License-Identifier: Apache-2.0
# For the scripts beside this file: says which GPUs a rank came to use, which ones Muster gave it, and the sum of all ranks.
import os
import sys

import torch


def say(rank, indexes, total):
    gpus = ",".join(torch.cuda.get_device_name(index).split()[-1] for index in indexes)  # the double ends it with the address
    own = os.environ.get("MUSTER_GPUS", "")
    sys.stdout.write(f"{rank} gpus={gpus}\n{rank} own={own}\n{rank} sum={float(total):.0f}\n")
    sys.stdout.flush()
