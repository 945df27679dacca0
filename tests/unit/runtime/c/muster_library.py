# SPDX-License-Identifier: Apache-2.0
"""What the ctypes programs need beside the declarations of muster.h in runtime/python/muster/library.py."""
import ctypes
import os
import sys

from muster.library import ABI_VERSION, DEVICES, JoinOptions, library


def last_error():
    return library.muster_last_error().decode()


def check(status):
    if status != 0:
        if not library.muster_last_error_reported_elsewhere():
            print(os.path.basename(sys.argv[0]) + ":", last_error(), file=sys.stderr)
        sys.exit(status)


def new(function, *arguments):
    """Returns the handle that a function creates."""
    made = ctypes.c_void_p()
    check(function(*arguments, ctypes.byref(made)))
    return made


def join(**options):
    options = JoinOptions(device=DEVICES["cpu"], operation_timeout_ms=60000, **options)
    return new(library.muster_join_abi, ABI_VERSION, ctypes.byref(options))
