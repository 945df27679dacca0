# SPDX-License-Identifier: Apache-2.0
"""A network between hosts that loses and delays packets, or is down. Each host is a network namespace with one interface; this process
carries the packets between them. (Not every kernel has netem, which does the same.) Needs root."""
import contextlib
import fcntl
import heapq
import itertools
import os
import random
import selectors
import struct
import subprocess
import threading
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


class SimulatedNetwork:
    """`hosts` hosts; host h has the address 10.99.0.(h + 1)."""

    numbers = itertools.count()  # of the networks of this process

    def __init__(self, hosts, seed, loss=0.0, delay=0.0):
        self.loss, self.delay = loss, delay  # of each packet; delay in seconds, in one direction
        self.down = False
        self.choice = random.Random(seed)
        name = f"{os.getpid()}.{next(self.numbers)}"
        self.namespaces = [f"muster-chaos-{name}.{host}" for host in range(hosts)]
        self.interfaces = []
        self.ended, self.end = os.pipe()
        self.thread = threading.Thread(target=self.carry)

    def __enter__(self):
        try:
            for host, namespace in enumerate(self.namespaces):
                self.add_host(host, namespace)
        except BaseException:
            self.remove()
            raise
        self.thread.start()
        return self

    def __exit__(self, *_):
        os.close(self.end)
        self.thread.join()
        self.remove()

    @staticmethod
    def address(host):
        return f"10.99.0.{host + 1}"

    def add_host(self, host, namespace):
        name = f"chaos{random.getrandbits(32):08x}"  # at most 15 letters
        interface = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        self.interfaces.append(interface)
        fcntl.ioctl(interface, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
        for command in (f"netns add {namespace}", f"link set {name} netns {namespace}", f"-n {namespace} link set lo up",
                        f"-n {namespace} address add {self.address(host)}/24 dev {name}", f"-n {namespace} link set {name} up"):
            subprocess.run(["ip", *command.split()], check=True)

    def remove(self):
        for interface in self.interfaces:
            os.close(interface)
        for namespace in self.namespaces:
            subprocess.run(["ip", "netns", "delete", namespace], check=False, stderr=subprocess.DEVNULL)
        os.close(self.ended)

    def carry(self):
        """Reads packets, and writes each to its destination's interface when it is due."""
        waiting, number = [], 0  # (due, number, interface, packet)
        with selectors.DefaultSelector() as selector:
            for interface in (*self.interfaces, self.ended):
                selector.register(interface, selectors.EVENT_READ)
            while True:
                wait = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
                for key, _ in selector.select(wait):
                    if key.fd == self.ended:
                        return
                    packet = os.read(key.fd, 65536)
                    host = packet[19] - 1 if packet[0] >> 4 == 4 else -1  # the last byte of IPv4's destination
                    if 0 <= host < len(self.interfaces) and not self.down and self.choice.random() >= self.loss:
                        number += 1
                        heapq.heappush(waiting, (time.monotonic() + self.delay, number, self.interfaces[host], packet))
                while waiting and waiting[0][0] <= time.monotonic():
                    _, _, interface, packet = heapq.heappop(waiting)
                    with contextlib.suppress(OSError):  # without memory the packet is lost
                        os.write(interface, packet)
