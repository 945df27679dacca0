# SPDX-License-Identifier: Apache-2.0
"""JAX on the job's control plane: initialize() in place of jax.distributed.initialize()."""
from __future__ import annotations

import ctypes
import signal
import sys

import jax

from .errors import end_process
from .job import Job
from .watch import library_errors, share_free_port, watch

library_errors.add(ValueError)  # jaxlib's, when a connection of gloo breaks


def initialize(deadline: float = 60, heartbeat_timeout: float = 10, **options) -> Job:
    """Joins the job, unless the program has done so, and calls jax.distributed.initialize() with the address of its coordinator,
    the number of processes and this one's number. `options` are the others of jax.distributed.initialize(). The job is
    watched as by muster.torch.watch(). All ranks call it. Returns the job.
    """
    job = watch(deadline=deadline, heartbeat_timeout=heartbeat_timeout)
    end_at_once_on_errors()
    delay_abort()
    port = share_free_port(job, "muster.jax", deadline)
    host = job.roster[0].address
    jax.distributed.initialize(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", job.size, job.rank,
                               **{"initialization_timeout": round(deadline), **options})
    return job


def end_at_once_on_errors() -> None:
    """Also on the program's own: at the exit of Python, JAX would wait for the other processes."""
    before = sys.excepthook

    def hook(kind, error, trace) -> None:
        code = 1
        try:
            before(kind, error, trace)
        except SystemExit as end:
            code = end.code
        end_process(code)

    sys.excepthook = hook


def delay_abort() -> None:
    """JAX aborts at once when its coordinator is lost, before a rank can name it. sleep() as the handler of SIGABRT gets the
    signal's number, 6, as its seconds; then the abort goes on."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal(signal.SIGABRT, ctypes.cast(libc.sleep, ctypes.c_void_p))
