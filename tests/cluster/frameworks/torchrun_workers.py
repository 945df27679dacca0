# SPDX-License-Identifier: Apache-2.0
"""torchrun_workers.py end|restart|agent [FILE]: workers of torchrun, which need nothing of Muster's. restart: rank 1 exits with 3 once, before
there is FILE. agent: rank 1 kills its agent, and all wait for theirs."""
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

case, agent = sys.argv[1], os.getppid()
first = case == "agent" or case == "restart" and not os.path.exists(sys.argv[2])
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
if first:
    if dist.get_rank() == 1:
        open(sys.argv[2], "w").close() if case == "restart" else os.kill(agent, signal.SIGKILL)
        sys.exit(3)
    while os.getppid() == agent:
        time.sleep(0.1)
    sys.exit(4)
os.write(1, b"rank %d of %d sum %d\n" % (dist.get_rank(), dist.get_world_size(), total))
dist.barrier()
dist.destroy_process_group()
