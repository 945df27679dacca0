# SPDX-License-Identifier: Apache-2.0
"""torch_muster.py groups|absent|kill|stop [muster|env [gloo|nccl]]: torch.distributed over muster://, or over env:// and watched. groups: all
kinds of operations end. The others lose rank 1: before it comes to init_process_group, or killed or stopped while all ranks train."""
import os
import signal
import sys
import threading
from datetime import timedelta

import torch
import torch.distributed as dist

import muster.torch

case, method, backend = sys.argv[1:] + ["muster", "gloo"][len(sys.argv) - 2:]
device = "cuda" if backend == "nccl" else "cpu"
if backend == "nccl":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())


def barrier(store, name, size):
    if hasattr(store, "barrier"):  # not in PyTorch 2.11
        return store.barrier(name, size, timedelta(seconds=30))
    if store.add(f"in {name}", 1) == size:
        store.set(f"all in {name}", "")
    store.wait([f"all in {name}"], timedelta(seconds=30))


def use_store(store, rank, size):
    store.set(f"rank {rank}", f"{rank}")
    assert store.multi_get([f"rank {each}" for each in range(size)]) == [b"%d" % each for each in range(size)]
    store.append("text", "ab")
    store.add("sum", rank)
    first = store.compare_set("first", "", f"of {rank}")
    barrier(store, "all", size)
    assert (store.add("sum", 0), len(store.get("text")), store.get("first")) == (size * (size - 1) // 2, 2 * size, first)
    assert store.compare_set("none", "x", "y") == b"x" and not store.check(["first", "none"]) and store.check(["first"])
    assert store.num_keys() > size and store.has_extended_api()
    barrier(store, "read", size)
    assert store.delete_key(f"rank {rank}") and not store.delete_key(f"rank {rank}")
    copy = store.clone()
    copy.multi_set([f"{rank}a", f"{rank}b"], ["1", "2"])
    store.wait([f"{rank}a", f"{rank}b"], timedelta(seconds=30))
    copy.set_timeout(timedelta(milliseconds=50))
    assert copy.timeout == timedelta(milliseconds=50)
    for call, kind in ((lambda: copy.get("never"), muster.DeadlineExceeded), (lambda: store.wait(["never"], timedelta(0)), muster.DeadlineExceeded),
                       (lambda: store.queue_push("q", "x"), NotImplementedError), (store.list_keys, NotImplementedError)):
        try:
            call()
        except kind:
            continue
        raise AssertionError(f"no {kind}")


def reduce(group=None):
    total = torch.ones(4, device=device)
    dist.all_reduce(total, group=group)
    return total[0].item()


def train(steps, before_step=lambda step: None):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 2).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        before_step(step)
        optimizer.zero_grad()
        model(torch.ones(4, 8, device=device)).sum().backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def use_groups():
    for _ in range(2):  # the second group must not find the keys of the first one
        dist.init_process_group(backend, init_method="muster://", timeout=timedelta(seconds=30))
        rank, size = dist.get_rank(), dist.get_world_size()
        assert reduce() == size
        if backend == "gloo":
            dist.monitored_barrier()
        pair = dist.new_group([0, size - 1])
        assert rank not in (0, size - 1) or reduce(pair) == 2
        for parameter in train(2):
            dist.broadcast(copy := parameter.clone(), 0)
            assert torch.equal(copy, parameter)
        dist.barrier()
        dist.destroy_process_group()
    store = muster.torch.Store(muster.torch.watch())
    use_store(dist.PrefixStore("of PyTorch", store), rank, size)
    threads = [threading.Thread(target=store.add, args=["threads", 1]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    barrier(store, "threads", size)
    assert int(store.get("threads")) == 8 * size + 0
    print(f"rank {rank} of {size} used all", flush=True)


def lose_rank_1():
    job = muster.torch.watch(heartbeat_timeout=2)
    if case == "absent" and job.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)

    def lose(step):
        if step == 5 and job.rank == 1:
            os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[case])

    dist.init_process_group(backend, init_method=f"{method}://")
    train(1000000, lose)


use_groups() if case == "groups" else lose_rank_1()
