# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package."""
from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Callable

from .library import ERRORS, library


class Error(RuntimeError):
    """One line: what happened, where, and what to do about it."""

    code: str  #: "usage", "environment", "device", "deadline", "lost_rank" or "system"
    exit_code: int  #: with which the program should end; 75: a requeue makes sense
    reported_elsewhere: bool  #: another rank has the same line and prints it

    def __init__(self, text: str, code: str, exit_code: int, reported_elsewhere: bool = False):
        super().__init__(text)
        self.code, self.exit_code, self.reported_elsewhere = code, exit_code, reported_elsewhere


class DeadlineExceeded(Error):
    """A rank did not arrive in time; the text names it."""


@dataclass(frozen=True)
class LostRank:
    rank: int
    host: str


class RankLost(Error):
    """A rank of the job has ended, or cannot be reached."""

    ranks: list[LostRank]  #: those that are known to be lost; others may be, too

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.ranks = lost_ranks()


lost_ranks: Callable[[], list[LostRank]] = list  # the job's

CLASSES = {"deadline": DeadlineExceeded, "lost_rank": RankLost}


def last_error(exit_code: int) -> Error:
    """The error of this thread's last failed call."""
    code = ERRORS[library.muster_last_error_code()]
    text = library.muster_last_error().decode(errors="replace")
    return CLASSES.get(code, Error)(text, code, exit_code, library.muster_last_error_reported_elsewhere() != 0)


def usage(text: str) -> Error:
    return Error(text, "usage", 64)


def check(status: int) -> None:
    """Raises the error of a call that has failed."""
    if status != 0:
        raise last_error(status)


def report(error: Error) -> None:
    """Prints the error's line, unless another rank does."""
    if not error.reported_elsewhere:
        # torch.distributed replaces sys.stderr around sys.excepthook, and SystemExit drops what it kept.
        print(f"{sys.argv[0] or 'python'}: {error}", file=sys.__stderr__ or sys.stderr, flush=True)


def end_process(code: int) -> None:
    """Ends this process without Python's exit handlers: JAX's wait for all other processes, and Python takes its time to take PyTorch apart."""
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).exit(code)
