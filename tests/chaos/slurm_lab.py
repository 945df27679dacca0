# SPDX-License-Identifier: Apache-2.0
"""A private Slurm (tests/lab) for many jobs, some of them at the same time. Needs root."""
import contextlib
import os
import pathlib
import queue
import subprocess

LAB = pathlib.Path(__file__).resolve().parents[1] / "lab" / "lab"


class SlurmLab:
    """Each job has two nodes of its own, so that a link that is down affects no other job. The lab ends with this process."""

    def __init__(self, build, jobs):
        self.environment = {**os.environ, "MUSTER_BUILD": str(build), "MUSTER_LAB": f"chaos.{os.getpid()}"}
        self.environment.setdefault("MUSTER_LAB_DEADLINE", "120")
        self.nodes = [f"n{node}" for node in range(2 * jobs)]
        self.free = queue.SimpleQueue()
        for pair in zip(self.nodes[::2], self.nodes[1::2]):
            self.free.put(pair)

    def __enter__(self):
        # Slots for all ranks of a job, whatever this machine has.
        subprocess.run([LAB, "up", "--nodes", str(len(self.nodes)), "--gpus", "0", "--cpus", "32"], env=self.environment, check=True)
        known = subprocess.run([LAB, "exec", "srun", "--mpi=list"], env=self.environment, check=True, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
        self.has_pmix = "pmix" in known.stdout.split()
        return self

    def __exit__(self, *_):
        subprocess.run([LAB, "down"], env=self.environment, check=True)

    @contextlib.contextmanager
    def two_nodes(self):
        nodes = self.free.get()
        try:
            yield nodes
        finally:
            self.free.put(nodes)

    def start(self, command, environment, output):
        """Starts a command where slurmctld runs."""
        return subprocess.Popen([LAB, "exec", *command], env={**self.environment, **environment}, stdout=output, stderr=output,
                                stdin=subprocess.DEVNULL)

    def set_link(self, node, state):
        subprocess.run([LAB, "node", node, "ip", "link", "set", "eth0", state], env=self.environment, check=True)

    def left_behind(self):
        """Files of Muster in the nodes' shared memory and /tmp."""
        found = []
        for node in self.nodes:
            files = subprocess.run([LAB, "node", node, "find", "/dev/shm", "/tmp", "-maxdepth", "1", "-name", "muster*"], env=self.environment,
                                   check=True, text=True, stdout=subprocess.PIPE).stdout
            found += [f"{node}:{name}" for name in files.split()]
        return found
