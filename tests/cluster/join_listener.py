#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the traffic between two nodes: join_listener.py HOST OTHER READY STOP [WORD...], on HOST.

Captures every TCP payload between the two, except slurmd's, from the network interface; OTHER may be `all`: every TCP payload that HOST sends or
receives, slurmd's too. A WORD is text or hex:DIGITS. Writes the file READY when it listens. When the file STOP exists, prints the number of bytes, whether Muster's greeting was among them, and which of the words (case-insensitive); and writes the first
stream that begins with a greeting to STOP."""
import os
import socket
import struct
import sys
import time

EVERYTHING = sys.argv[2] == "all"
HOST, OTHER = (socket.inet_aton(socket.gethostbyname(name)) for name in (sys.argv[1], sys.argv[1 if EVERYTHING else 2]))
READY, STOP, WORDS = sys.argv[3], sys.argv[4], sys.argv[5:]
SLURMD = 6818
SO_RCVBUFFORCE = 33  # Python has no name for it
GREETING = b"muster\x00\x02"


def segment(frame):
    """(sender, ports) and payload of a frame between the two hosts; None for others."""
    if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP or not (EVERYTHING or {frame[26:30], frame[30:34]} == {HOST, OTHER}):
        return None
    tcp = 14 + (frame[14] & 15) * 4
    ports = struct.unpack("!HH", frame[tcp : tcp + 4])
    if SLURMD in ports and not EVERYTHING:
        return None
    end = 14 + struct.unpack("!H", frame[16:18])[0] or len(frame)
    return (frame[26:30], ports), frame[tcp + (frame[tcp + 12] >> 4) * 4 : end]


def frames(interface):
    """The frames until STOP exists, and those already received by then: on a busy machine this process may read late."""
    # On a busy machine frames wait for this process, and those beyond the buffer are lost.
    interface.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    interface.settimeout(0.1)
    open(READY, "w").close()
    until = time.monotonic() + 600
    while time.monotonic() < until:
        try:
            yield interface.recv(1 << 17)
        except TimeoutError:
            pass
        except BlockingIOError:
            return
        if os.path.exists(STOP):
            interface.settimeout(0)


def as_bytes(word):
    return bytes.fromhex(word[4:]) if word.startswith("hex:") else word.encode()


streams = {}
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as interface:  # ETH_P_ALL
    for frame in frames(interface):
        heard = segment(frame)
        if heard:
            streams[heard[0]] = streams.get(heard[0], b"") + heard[1]
everything = b"\n".join(streams.values())
found = [word for word in WORDS if as_bytes(word).lower() in everything.lower()]
greeted = [said for said in streams.values() if said.startswith(GREETING)]
with open(STOP, "wb") as file:
    file.write(greeted[0] if greeted else b"")
print(f"listener: {len(everything)} bytes, greeting: {GREETING in everything}, plain text: {' '.join(found) or 'none'}")
