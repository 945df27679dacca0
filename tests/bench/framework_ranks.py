# SPDX-License-Identifier: Apache-2.0
"""The ranks of one node, for tests/bench/framework_losses: framework_ranks.py FRAMEWORK. Reads a line of JSON for each run and forks its ranks, so that
the framework is imported once. Writes a line of JSON for their start and for each end."""
import json
import os
import pathlib
import signal
import sys
import time

HEARTBEAT, DEADLINE = 3, 10  # seconds, of muster.join()
LOSS_STEP = 9
LIMIT = 300  # seconds that a run may take


class Rank:
    """One rank of a run, and what it does in the run's case."""

    def __init__(self, run, rank):
        self.case, self.rank, self.folder = run["case"], rank, pathlib.Path(run["folder"])
        self.lost = rank in run["lost"]
        self.steps = LOSS_STEP + 1 if self.case == "finishes" else sys.maxsize

    def note(self, what):
        new = self.folder / f"{what}-{self.rank}.new"
        new.write_text(str(time.monotonic()))
        new.rename(new.with_suffix(""))

    def lose(self, number):
        self.note("event")
        os.kill(os.getpid(), number)

    def joined(self):
        """Before the framework connects the ranks."""
        if self.case == "killed-in-init" and self.lost:
            time.sleep(1)
            self.lose(signal.SIGKILL)

    def stepped(self, step):
        if step != LOSS_STEP:
            return
        if self.case in ("link-down", "finishes"):
            self.note("stepped")
        elif self.lost and self.case == "throws":
            self.note("event")
            raise LookupError("on purpose")
        elif self.lost and self.case == "exits-0":
            self.note("event")
            sys.exit(0)
        elif self.lost:
            self.lose(signal.SIGSTOP if self.case == "stopped" else signal.SIGKILL)


def torch_program():
    import torch
    import muster.torch

    def train(rank):
        muster.torch.watch(heartbeat_timeout=HEARTBEAT, deadline=DEADLINE)
        rank.joined()
        torch.distributed.init_process_group("gloo")
        gradients = torch.ones(1000)
        for step in range(rank.steps):
            torch.distributed.all_reduce(gradients)
            gradients /= torch.distributed.get_world_size()
            rank.stepped(step)
    return train


def jax_program():
    import jax.numpy as jnp
    from jax.experimental import multihost_utils
    import muster.jax
    from muster.watch import watch

    def train(rank):
        job = watch(heartbeat_timeout=HEARTBEAT, deadline=DEADLINE)
        rank.joined()
        muster.jax.initialize(deadline=DEADLINE, heartbeat_timeout=HEARTBEAT)
        for step in range(rank.steps):
            assert multihost_utils.process_allgather(jnp.ones(1)).sum() == job.size
            rank.stepped(step)
    return train


def lightning_program():
    import lightning
    import torch
    import torch._dynamo  # DistributedDataParallel needs it
    import muster.torch

    def train(rank):
        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(8, 2)

            def training_step(self, batch, _):
                return self.layer(batch).sum()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

            def on_train_batch_end(self, *_):
                rank.stepped(self.global_step - 1)

        job = muster.torch.set_environment(heartbeat_timeout=HEARTBEAT, deadline=DEADLINE)
        rank.joined()
        samples = torch.utils.data.DataLoader(torch.ones(4096, 8), batch_size=4)
        trainer = lightning.Trainer(accelerator="cpu", devices=job.local_size, num_nodes=job.host_count, strategy="ddp", max_steps=rank.steps, max_epochs=-1,
                                    logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
        trainer.fit(Model(), samples)
    return train


def accelerate_program():
    import accelerate
    import torch
    import torch._dynamo  # DistributedDataParallel needs it
    import muster.torch

    def train(rank):
        muster.torch.set_environment(heartbeat_timeout=HEARTBEAT, deadline=DEADLINE)
        rank.joined()
        accelerator = accelerate.Accelerator(cpu=True)
        model = torch.nn.Linear(8, 2)
        model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for step in range(rank.steps):
            optimizer.zero_grad()
            accelerator.backward(model(torch.ones(4, 8)).sum())
            optimizer.step()
            rank.stepped(step)
    return train


PROGRAMS = {"torch": torch_program, "jax": jax_program, "lightning": lightning_program, "accelerate": accelerate_program}


def write(**line):
    os.write(1, (json.dumps(line) + "\n").encode())


def become_rank(run, rank):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(run["size"]), LOCAL_RANK=str(rank - run["first"]), LOCAL_WORLD_SIZE=str(run["count"]),
                      MASTER_ADDR=run["address"], MASTER_PORT=str(run["port"]), MUSTER_KEY=run["key"])
    output = os.open(f"{run['folder']}/output-{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
    sys.argv = ["framework_ranks"]
    return Rank(run, rank)


def wait_for(ranks, limit):
    """Those that run for too long are killed."""
    while ranks:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            write(rank=ranks.pop(pid), code=os.waitstatus_to_exitcode(status), at=time.monotonic())
            continue
        if time.monotonic() > limit:
            for pid in ranks:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def serve():
    """Serves runs until the input ends. Returns in each rank."""
    write(ready=True)
    for line in iter(sys.stdin.readline, ""):
        run, ranks = json.loads(line), {}
        for rank in range(run["first"], run["first"] + run["count"]):
            if (pid := os.fork()) == 0:
                return become_rank(run, rank)
            ranks[pid] = rank
        wait_for(ranks, time.monotonic() + LIMIT)
    sys.exit(0)


program = PROGRAMS[sys.argv[1]]()
program(serve())
