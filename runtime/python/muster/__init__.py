# SPDX-License-Identifier: Apache-2.0
"""Muster for Python: a process joins the job that Slurm, mpirun or torchrun started, gets communicators over its ranks, and
every wait has a deadline and names the rank that is missing.

    import muster, numpy

    with muster.join() as job:
        values = numpy.full(4, job.rank, dtype="float32")
        job.host_world().all_reduce(values)
"""
from .communicator import Communicator, Work
from .errors import DeadlineExceeded, Error, LostRank, RankLost
from .job import Hello, Job, join
from .library import library as _library
from .reducer import Reducer
from .sampler import Batch, Position, Sampler, share_of
from .store import Store

__version__ = _library.muster_version().decode()
__all__ = ["Batch", "Communicator", "DeadlineExceeded", "Error", "Hello", "Job", "LostRank", "Position", "RankLost", "Reducer", "Sampler", "Work", "join",
           "Store", "share_of"]
