#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unauthenticated peers at rank 0's key server: join_strangers.py HOST PORT, before the caller itself joins.

Sends garbage, a frame of an impossible length, another user's credential, one for another job, and a good one twice. Prints how many requests
were cut off without an answer. Only the first good one gets an answer, encrypted, which is not read."""
import os
import socket
import struct
import subprocess
import sys
import time

HOST, PORT = sys.argv[1], int(sys.argv[2])
MAGIC = b"mustkey\x01"
PATIENCE = 60  # a busy machine may be slow; each wait ends as soon as its condition is met


def connect():
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            return socket.create_connection((HOST, PORT), timeout=PATIENCE)
        except OSError:
            time.sleep(0.05)
    sys.exit("strangers: nothing listens")


def answer_to(data):
    with connect() as stream:
        try:
            stream.sendall(data)
            return stream.recv(100)
        except OSError:
            return b""


def text(value):
    return bytes([0x60 + len(value)]) + value if len(value) < 24 else b"\x78" + bytes([len(value)]) + value


def request(job):
    """CBOR (RFC 8949): {"job": job, "rank": 3, "nonce": 32 bytes}"""
    return b"\xa3" + text(b"job") + text(job) + text(b"nonce") + b"\x58\x20" + os.urandom(32) + text(b"rank") + b"\x03"


def credential(payload, as_nobody=False):
    command = ["munge", "--no-input"] if not payload else ["munge"]
    if as_nobody:
        command = ["setpriv", "--reuid=65534", "--clear-groups"] + command
    return subprocess.run(command, input=payload, stdout=subprocess.PIPE, check=True).stdout.strip()


def framed(sealed):
    return MAGIC + struct.pack("<I", len(sealed)) + sealed


own_job = "slurm/{}/{}.{}/{}".format(
    *(os.environ.get(name, "") for name in ("SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"))
).encode()
good = framed(credential(request(own_job)))
first = answer_to(good)
if not first.startswith(MAGIC):
    sys.exit("strangers: a good request got no answer, so the other tries prove nothing")
tries = [
    os.urandom(5000),
    MAGIC + struct.pack("<I", 0x7FFFFFFF) + b"x" * 100,
    framed(credential(request(own_job), as_nobody=True)),
    framed(credential(request(b"slurm/other/1.0/"))),
    good,
]
answers = [answer_to(data) for data in tries]
print("strangers: {} of {} cut off".format(answers.count(b""), len(tries)), flush=True)
