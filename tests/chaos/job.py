# SPDX-License-Identifier: Apache-2.0
"""A job of chaos_ranks: what its seed decides, how it is started, and how it must end."""
import contextlib
import os
import pathlib
import random
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time

import expected_mismatches
from expected_lines import LOSSES, Plan, is_true
from simulated_network import SimulatedNetwork

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "cluster"))
from srun_output import endings

FAULTS = ("none", "kill", "kill_two", "abort", "stop", "exit", "throw", "return", "other_call", "mismatch")
FAULTS_OF_HOSTS = ("kill_leaders", "link_down")  # by launchers of two hosts
ON_LAB = {"pmix": "pmix", "munge": "none"}  # launcher → srun --mpi
LAUNCHERS = ("env", "network", "mpirun", *ON_LAB)
# Exit codes: of the culprit, and of the others. The line may allow another one.
CODES = {
    "none": (0, 0), "kill": (-9, 75), "kill_two": (-9, 75), "kill_leaders": (-9, 75), "link_down": (75, 75), "abort": (-6, 75), "stop": (-9, 75), "exit": (0, 75), "throw": (1, 75),
    "return": (0, 64), "other_call": (64, 64), "mismatch": (64, 64),
}
SECONDS = 60  # for any job, also on a busy machine; twice as many on the lab, and five times as many with a network
NETWORKS = {"": {}, "delay": {"delay": 0.2}, "loss": {"loss": 0.3}}
# What each rank, or mpirun, finds.
SURROUNDINGS = {
    "full /dev/shm": "mount -t tmpfs -o size=16k tmpfs /dev/shm && ! head -c 20000 /dev/zero 2>/dev/null >/dev/shm/full",
    "64 descriptors": "ulimit -n 64",
    "clock jumps": "export LD_PRELOAD=$MUSTER_CHAOS_CLOCK SHIFTED_CLOCK_SECONDS=-7200 SHIFTED_CLOCK_AFTER_MS=300",
    "32 descriptors": "ulimit -n 32",
    "full /tmp": "mount -t tmpfs -o size=16k tmpfs /tmp && ! head -c 20000 /dev/zero 2>/dev/null >/tmp/full",
}
HEARTBEAT_TIMEOUT = "20"  # seconds, for such a network


class Job:
    """One job, and what is wrong with its end."""

    def __init__(self, program, seed, faults, launchers, networks, lab):
        # Each choice has its own random numbers: the others stay the same when the options for one change.
        def choose(name, options):
            return random.Random(f"{seed} {name}").choice(list(options))

        self.program, self.seed, self.lab = program, seed, lab
        self.build = program.parents[1]  # all ranks see it
        self.launcher = choose("launcher", launchers)
        self.has_nodes = self.launcher == "network" or self.launcher in ON_LAB
        self.fault = choose("fault", [name for name in faults if self.has_nodes or name not in FAULTS_OF_HOSTS])
        self.ranks = choose("ranks", range(3 if self.fault in ("kill_two", "kill_leaders") else 2, 9))
        self.network = choose("network", networks) if self.launcher == "network" else ""
        self.surroundings = choose("surroundings", self.possible_surroundings()) if choose("is scarce", range(10)) < 3 else ""
        self.seconds = SECONDS * {"network": 5, "env": 1, "mpirun": 1}.get(self.launcher, 2)
        # Without these, only what a rank takes from another one shows a mismatch, and only messages carry it.
        self.off = [name for name in ("MUSTER_CHECK", "MUSTER_SHARED_MEMORY") if choose(name, (False, True))]
        self.mark = secrets.token_hex(8)
        self.settings = {
            **{name: "off" for name in self.off},
            # Open MPI leaks, and buffers that it may still use after a failure are kept.
            "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0",
            "MUSTER_CHAOS_CLOCK": str(self.build / "lib" / "shifted_clock.so"),
            "MUSTER_CHAOS_JOB": self.mark,
        }
        self.command = [str(program), str(seed), self.fault]
        if self.network:
            self.command.append(HEARTBEAT_TIMEOUT)
        self.hosts = 2 if self.has_nodes else choose("hosts", (1, 1, 2)) if os.geteuid() == 0 else 1
        if self.hosts > 1 and not self.has_nodes:  # host names alone, so that the ranks of a host still share memory
            self.command = ["unshare", "--uts", "sh", "-c", f'hostname "h$(( ${{RANK:-$OMPI_COMM_WORLD_RANK}} % {self.hosts}))" && exec "$@"', "sh",
                            *self.command]
        self.problems = []
        self.expected = CODES[self.fault]
        # Rank 0 knows of every wait then. The hosts of a simulated network share their memory.
        uses_messages = self.launcher != "network" and self.hosts > 1 or "MUSTER_SHARED_MEMORY" in self.off
        self.is_on_control_plane = self.launcher not in ("mpirun", "pmix") and uses_messages
        # mpirun ends all ranks as soon as one is lost, and may drop a line that is being printed.
        self.may_be_dropped = self.launcher == "mpirun" and self.fault in LOSSES
        self.dropped = False

    def possible_surroundings(self):
        if os.geteuid() != 0:
            return [""]
        # Open MPI needs more than 32 descriptors, and mpirun room in /tmp.
        impossible = {"mpirun": {"32 descriptors", "full /tmp"}, "pmix": {"32 descriptors"}}.get(self.launcher, set())
        if self.program.is_relative_to("/tmp"):
            impossible.add("full /tmp")
        return [name for name in SURROUNDINGS if name not in impossible]

    def __str__(self):
        network = f" with {self.network}" if self.network else ""
        return (f"seed {self.seed}, {self.fault}, {self.ranks} ranks by {self.launcher}{network}, {self.surroundings or 'nothing scarce'}, "
                f"off: {self.off}")

    def run(self):
        starts = {"env": self.start_on_one_machine, "network": self.start_on_network, "mpirun": self.start_mpirun}
        with tempfile.TemporaryFile("w+") as output:
            codes = starts.get(self.launcher, self.start_on_lab)(output)
            output.seek(0)
            self.output = output.read()
        if self.launcher in ON_LAB:
            codes = self.codes_from_srun()
        if not self.problems:
            self.check(codes)
        self.check_processes()
        return self.problems

    def start_on_one_machine(self, output):
        # The ranks meet at a socket whose name has address and port. No other process has this address.
        pid = os.getpid()
        address = f"127.{pid >> 16 & 255}.{pid >> 8 & 255}.{pid & 255}"
        return self.wait_for(self.start_ranks(output, {"MASTER_ADDR": address, "MASTER_PORT": 20000 + self.seed % 10000}))

    def start_on_network(self, output):
        with tempfile.TemporaryDirectory(dir=self.build) as folder, SimulatedNetwork(2, self.seed, **NETWORKS[self.network]) as network:
            link_down = pathlib.Path(folder, "link_down")
            prefixes = [["ip", "netns", "exec", namespace] for namespace in network.namespaces]
            job = {"MASTER_ADDR": network.address(0), "MASTER_PORT": 29500, "MUSTER_KEY": secrets.token_hex(32),
                   "MUSTER_CHAOS_LINK_DOWN": link_down}

            def watch_link():
                if link_down.exists():
                    network.down = True
                    link_down.unlink()

            return self.wait_for(self.start_ranks(output, job, prefixes), watch_link)

    def start_ranks(self, output, job, prefixes=((),)):
        """Starts rank r on host r modulo their number, by that host's command prefix."""
        ranks, hosts = [], len(prefixes)
        for rank in range(self.ranks):
            host = rank % hosts
            own = {"RANK": rank, "WORLD_SIZE": self.ranks, "LOCAL_RANK": rank // hosts,
                   "LOCAL_WORLD_SIZE": len(range(host, self.ranks, hosts))}
            environment = {**os.environ, **self.settings, **{name: str(value) for name, value in {**job, **own}.items()}}
            ranks.append(subprocess.Popen([*prefixes[host], *self.surround(self.command)], env=environment, stdout=output, stderr=output,
                                          stdin=subprocess.DEVNULL))
        return ranks

    def wait_for(self, ranks, while_waiting=lambda: None):
        """Exit codes by rank."""
        deadline = time.monotonic() + self.seconds
        while waiting := [rank for rank in ranks if rank.poll() is None]:
            # A stopped rank ends when somebody kills it: the leader of its host, or else the user.
            if all(is_stopped(rank.pid) for rank in waiting) or self.is_late(deadline):
                break
            while_waiting()
            time.sleep(0.02)
        for rank in waiting:
            rank.kill()
        return [rank.wait() for rank in ranks]

    def is_late(self, deadline):
        if time.monotonic() < deadline:
            return False
        self.problems.append(f"it did not end within {self.seconds} s")
        return True

    def start_mpirun(self, output):
        command = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-n", str(self.ranks), *self.command]
        mpirun = subprocess.Popen(self.surround(command), env={**os.environ, **self.settings}, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        try:
            return [mpirun.wait(self.seconds)]
        except subprocess.TimeoutExpired:
            self.problems.append(f"it did not end within {self.seconds} s")
            mpirun.terminate()
            return [mpirun.wait(30)]

    def start_on_lab(self, output):
        with self.lab.two_nodes() as nodes, tempfile.TemporaryDirectory(dir=self.build) as folder:
            link_down = pathlib.Path(folder, "link_down")
            srun = self.lab.start(["srun", "--overcommit", "--kill-on-bad-exit=0", "--distribution=cyclic", f"--mpi={ON_LAB[self.launcher]}",
                                   f"--nodelist={','.join(nodes)}", "--nodes=2", f"--ntasks={self.ranks}", *self.surround(self.command)],
                                  {**self.settings, "MUSTER_CHAOS_LINK_DOWN": str(link_down)}, output)
            try:
                self.wait_for_step(srun, link_down, nodes[1])
            finally:
                self.lab.set_link(nodes[1], "up")
                self.end_srun(srun)

    def wait_for_step(self, srun, link_down, node):
        """Waits until the step's processes have ended: srun waits longer for a node that was cut off."""
        deadline, begun = time.monotonic() + self.seconds, False
        while srun.poll() is None and not self.is_late(deadline):
            if link_down.exists():
                self.lab.set_link(node, "down")
                link_down.unlink()
            ranks = self.processes()
            if begun and all(is_stopped(pid) for pid in ranks):
                kill_all(ranks)
                return
            begun = begun or bool(ranks)
            time.sleep(0.1)

    def end_srun(self, srun):
        for end in (lambda: None, srun.terminate, srun.kill):
            end()
            try:
                srun.wait(20)
                return
            except subprocess.TimeoutExpired:
                if self.fault != "link_down":
                    self.problems.append("srun did not end")

    def codes_from_srun(self):
        ends = endings(self.output.splitlines())
        return [code_of(ends.get(rank, "Exited with exit code 0")) for rank in range(self.ranks)]

    def processes(self):
        """Those of the ranks, on any node."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                process = pathlib.Path("/proc", pid)
                if process.joinpath("cmdline").read_bytes().startswith(os.fsencode(self.program)) and \
                        self.mark.encode() in process.joinpath("environ").read_bytes():
                    found.append(int(pid))
        return found

    def check_processes(self):
        deadline = time.monotonic() + 10  # the kernel ends processes one by one
        while left := self.processes():
            if time.monotonic() > deadline:
                self.problems.append(f"left running: {left}")
                return kill_all(left)
            time.sleep(0.1)

    def surround(self, command):
        if not self.surroundings:
            return command
        return ["unshare", "--mount", "sh", "-c", SURROUNDINGS[self.surroundings] + ' && exec "$@"', "sh", *command]

    def check(self, codes):
        plan = Plan.read(self.output, self.ranks)
        if plan is None:
            self.problems.append("it did not begin")
            return
        culprit, second = plan.culprit, plan.second
        lines = re.findall(r"^(?:chaos_ranks|muster): (?!warning)(.*)", self.output, re.M)
        if "Sanitizer" in self.output or "corruption" in self.output:
            self.problems.append("a memory error")
        self.check_lines(lines, plan)
        if self.fault == "mismatch" and lines and not self.is_on_control_plane:
            self.expected = 2 * (expected_mismatches.exit_code(plan, lines[0], self.network),)
        if self.launcher == "mpirun":
            if (codes[0] == 0) != (self.fault == "none") or (self.fault == "mismatch" and codes[0] != self.expected[0]):
                self.problems.append(f"mpirun ended with {codes[0]}")
            return
        for rank, code in enumerate(codes):
            if code not in self.allowed_codes(rank, culprit, second):
                self.problems.append(f"rank {rank} ended with {code} and not {self.expected[rank != culprit]}")

    def is_true(self, plan, line):
        return expected_mismatches.is_true(plan, line, self.network) if self.fault == "mismatch" else is_true(self.fault, plan, self.hosts, line)

    def allowed_codes(self, rank, culprit, second):
        allowed = {self.expected[rank != culprit]}
        # Of two, one may see the loss of the other before its own end.
        if self.fault in ("kill_two", "kill_leaders") and rank in (culprit, second):
            allowed |= {-9, 75}
        # Slurm ends a step about a second after a rank that was connected to PMIx has ended.
        if self.launcher == "pmix" and self.fault != "none":
            allowed |= {-9, -15}
            # Open MPI 4.1 ends a process that sends to one that has just ended.
            if re.search(r"pml_ob1_sendreq.*FATAL", self.output):
                allowed.add(255)
        # srun may not learn how the ranks of the node ended that was cut off.
        if self.launcher in ON_LAB and self.fault == "link_down" and rank % 2 == 1:
            allowed |= {0, -9, -15}
        return allowed

    def check_lines(self, lines, plan):
        if self.fault == "none":
            if lines:
                self.problems.append(f"it printed {lines}")
            return
        if not lines and self.may_be_dropped:
            self.dropped = True
            return
        # An answer that comes late counts as none when the ranks look for the one that prints: nobody may print the loss of two ranks, and
        # several ranks that of a host's leader.
        if self.network and self.fault in ("kill_two", "kill_leaders") and not lines:
            return
        # mpirun lets a stopped rank go on before it ends it: that rank may print, too.
        if self.fault == "stop" and self.launcher == "mpirun":
            lines = lines[:1]
        self.problems += [f"not true: {line}" for line in lines if not self.is_true(plan, line)]
        if len(lines) != 1 and not (lines and self.may_have_several(lines, plan)):
            self.problems.append(f"{len(lines)} lines and not 1: {lines}")

    def may_have_several(self, lines, plan):
        if self.network and self.fault in LOSSES and (plan.culprit < 2 or self.fault == "kill_two"):
            return True
        return self.fault == "link_down" and len(lines) == 2  # one on each side


def is_stopped(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("T")
    except OSError:
        return False


def kill_all(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def code_of(end):
    """The exit code in srun's text; minus the number of a signal. The text itself if it is another one."""
    exited = re.fullmatch(r"Exited with exit code (\d+)", end)
    return int(exited[1]) if exited else {"Aborted": -6, "Killed": -9, "Terminated": -15}.get(end, end)
