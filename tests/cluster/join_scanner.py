#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A scanner on the network while a job joins or runs: join_scanner.py HOST PORT RECORD FILE, where rank 0 listens on HOST:PORT.

RECORD is a port, on which the scanner sits in between for one rank and records what it says, or a file that has what a rank said
(join_listener.py wrote it). Then scans ports with what scanners say, sends the recorded handshake again (as it was, its frames too, and the
greeting of another rank with the old proof), fills rank 0's gate with connections that say nothing or half a greeting, and writes FILE. Says
how much of it was cut off without a welcome; holds its connections, and makes new ones in their place, until it is ended or nobody listens.
Its waits are long, since a busy machine may take long for each step: what they wait for is what counts."""
import os
import socket
import sys
import threading
import time

HOST, PORT, RECORD, FILE = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
GREETING, ANSWER, PROOF = 44, 64, 32
PATIENCE = 60
recorded = bytearray()


def hand_on(source, target, record):
    try:
        while data := source.recv(65536):
            if record:
                recorded.extend(data)
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def connect(port):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            return socket.create_connection((HOST, port), timeout=PATIENCE)
        except OSError:
            time.sleep(0.05)
    sys.exit("scanner: nobody listens")


def record():
    listener = socket.create_server(("", int(RECORD)))
    while True:
        rank, _ = listener.accept()
        leader = connect(PORT)
        leader.settimeout(None)  # rank 0 says nothing until the last rank has come
        for arguments in ((rank, leader, True), (leader, rank, False)):
            threading.Thread(target=hand_on, args=arguments, daemon=True).start()


def is_cut_off(parts):
    """Says one part after another, each after an answer, and reads to the end: nothing but the answer to the greeting may come."""
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
    """Every port of a range with what scanners say first."""
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


if RECORD.isdigit():
    threading.Thread(target=record, daemon=True).start()
else:
    with open(RECORD, "rb") as heard:
        recorded.extend(heard.read())
until = time.monotonic() + PATIENCE
while len(recorded) < GREETING + PROOF + 20:
    if time.monotonic() > until:
        sys.exit("scanner: no handshake to record")
    time.sleep(0.01)
time.sleep(0.2)
found = scan()
greeting, proof = bytes(recorded[:GREETING]), bytes(recorded[GREETING : GREETING + PROOF])
other = greeting[:8] + b"\x03\x00\x00\x00" + greeting[12:]
replays = [[greeting, proof], [greeting, bytes(recorded[GREETING:])], [other, proof], [bytes(recorded)], [recorded[GREETING:]]]
cut_off = sum(is_cut_off(parts) for parts in replays)
held = []
for i in range(600):
    stream = connect(PORT)
    if i % 2:
        stream.sendall(greeting[: i % GREETING])
    held.append(stream)
print(f"scanner: {found > 4} {cut_off} of {len(replays)} replays cut off, {len(held)} connections held", flush=True)
open(FILE, "w").close()
while True:  # until the job ends; what is pushed out comes again
    time.sleep(0.01)
    held.pop(0).close()
    try:
        held.append(socket.create_connection((HOST, PORT), timeout=1))
    except OSError:
        sys.exit(0)
