# SPDX-License-Identifier: Apache-2.0
"""jax_muster.py end|absent|kill|stop RANK: a JAX program that starts by muster.jax.initialize(). The others lose RANK: before it comes to
jax.distributed.initialize(), or killed or stopped while all ranks compute."""
import os
import signal
import sys

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

import muster.jax
from muster.watch import watch

case, lost = sys.argv[1], int(sys.argv[2])
job = watch(heartbeat_timeout=2)
if case == "absent" and job.rank == lost:
    os.kill(os.getpid(), signal.SIGKILL)
assert muster.jax.initialize() is job
for step in range(3 if case == "end" else 1000000):
    total = multihost_utils.process_allgather(jnp.ones(1)).sum()
    if step == 2 and job.rank == lost and case != "end":
        os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[case])
os.write(1, b"rank %d of %d sum %d\n" % (jax.process_index(), jax.process_count(), total))
jax.distributed.shutdown()
