# SPDX-License-Identifier: Apache-2.0
"""The end of a program that communicates through another library, such as torch.distributed or JAX, after the loss of a rank."""
from __future__ import annotations

import socket
import sys

from .errors import DeadlineExceeded, Error, end_process
from .job import Job, join, open_jobs

CAUSE_SECONDS = 2  # from an error of a communication library to the job's failure that caused it
library_errors: set[type[Exception]] = {RuntimeError}  # that communication libraries raise
watched: list[Job] = []


def watch(**options) -> Job:
    """Joins the job, with muster.join()'s options, unless the program has done so. From then on this process ends at most two
    seconds after the control plane knows that a rank is lost, stopped or cut off, also while it hangs in a collective of
    another library: with exit code 75, and one line of one rank. All ranks call it, before or after they
    start that library. Returns the job.

    An uncaught RuntimeError, for example gloo's "Connection closed by peer", is replaced by the loss that caused it. A process that ends by a
    loss does not run Python's exit handlers, which take a second with PyTorch loaded.
    """
    job = next(iter(open_jobs)) if open_jobs else join(**options)
    if job not in watched:
        watched.append(job)
        replace_uncaught_errors(job)
    return job


def replace_uncaught_errors(job: Job) -> None:
    """An error of a communication library that ends this process comes from the loss of a rank, if one follows."""
    before = sys.excepthook

    def hook(kind, error, trace) -> None:
        cause = failure_behind(job, error)
        if cause is None:
            return before(kind, error, trace)
        try:
            before(type(cause), cause, None)
        except SystemExit as end:
            end_process(end.code)

    sys.excepthook = hook


def failure_behind(job: Job, error: BaseException) -> Error | None:
    """The job's failure that ends this process with `error`."""
    if isinstance(error, Error):
        return error
    if job in open_jobs and isinstance(error, tuple(library_errors)):
        key = "muster.watch: no rank puts this"
        try:
            try:
                job.store.get(key, CAUSE_SECONDS)
            except DeadlineExceeded:
                job.store.check(key)  # raises the job's failure, which may be a deadline, too
        except Error as cause:
            return cause
    return None


def share_free_port(job: Job, name: str, deadline: float) -> int:
    """A port of rank 0's host that was free when rank 0 looked; the same on all ranks. Collective, once for each name."""
    if job.rank == 0:
        with socket.create_server(("", 0)) as free:
            job.store.put(f"{name}: port", str(free.getsockname()[1]))
    return int(job.store.get(f"{name}: port", deadline))
