#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A scanner on the network while a job joins or runs: join_scanner.py HOST PORT RECORD FILE, where rank 0 listens on HOST:PORT.

RECORD is a file with a rank's recorded stream (written by join_listener.py). Scans ports with scanners' usual first bytes, replays the recorded
handshake (unchanged, with its frames, and with another rank's greeting and the old proof), fills rank 0's table of unauthenticated connections
with connections that send nothing or half a greeting, and writes FILE. Prints how many replays were cut off without a welcome; holds its
connections and replaces closed ones, until it is ended or nothing listens.
Its timeouts are long, because a busy machine may be slow; each wait ends as soon as its condition is met."""
import os
import socket
import sys
import time

HOST, PORT, RECORD, FILE = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
GREETING, ANSWER, PROOF = 44, 64, 32
PATIENCE = 60


def connect(port):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            return socket.create_connection((HOST, port), timeout=PATIENCE)
        except OSError:
            time.sleep(0.05)
    sys.exit("scanner: nothing listens")


def is_cut_off(parts):
    """Sends the parts, each after an answer, and reads to the end: only the answer to the greeting may arrive."""
    heard = b""
    with connect(PORT) as stream:
        try:
            for part in parts:
                stream.sendall(part)
                heard += stream.recv(ANSWER)
            while more := stream.recv(100):
                heard += more
        except (ConnectionError, BrokenPipeError):
            pass
        except OSError:
            return False
    return len(heard) <= ANSWER


def scan():
    """Connects to every port of a range and sends scanners' usual first bytes."""
    words = (b"", b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"SSH-2.0-scan\r\n", os.urandom(64))
    found = 0
    for port in range(PORT - 200, min(PORT + 200, 65536)):
        for word in words if port == PORT else words[:1]:
            with socket.socket() as stream:
                stream.settimeout(1)
                if stream.connect_ex((HOST, port)) == 0:
                    found += 1
                    stream.sendall(word)
    return found


with open(RECORD, "rb") as heard:
    recorded = heard.read()
found = scan()
greeting, proof = recorded[:GREETING], recorded[GREETING : GREETING + PROOF]
other = greeting[:8] + b"\x03\x00\x00\x00" + greeting[12:]
replays = [[greeting, proof], [greeting, recorded[GREETING:]], [other, proof], [recorded], [recorded[GREETING:]]]
cut_off = sum(is_cut_off(parts) for parts in replays)
held = []
for i in range(600):
    stream = connect(PORT)
    if i % 2:
        stream.sendall(greeting[: i % GREETING])
    held.append(stream)
print(f"scanner: {found > 4} {cut_off} of {len(replays)} replays cut off, {len(held)} connections held", flush=True)
open(FILE, "w").close()
while True:  # until the job ends; replaces evicted connections
    time.sleep(0.01)
    held.pop(0).close()
    try:
        held.append(socket.create_connection((HOST, PORT), timeout=1))
    except OSError:
        sys.exit(0)
