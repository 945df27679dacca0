# SPDX-License-Identifier: Apache-2.0
"""The package's operations on as many ranks as the launcher started."""
import array

import muster


def floats(*values):
    return array.array("f", values)


with muster.join(device="cpu") as job:
    rank, size = job.rank, job.size
    world = job.world()
    total = size * (size + 1) / 2

    values = floats(*[rank + 1] * 1000)
    world.all_reduce(values)
    assert list(values) == [total] * 1000, values[:3]
    mean = floats(rank + 1)
    copy = floats(0)
    world.all_reduce(mean, "average", out=copy)
    assert list(copy) == [total / size] and list(mean) == [rank + 1]
    work = world.all_reduce_async(values, "max")
    assert work.wait_for(60)
    work.wait()
    assert work.test() and list(values) == [total] * 1000

    everyone = floats(*[0] * size)
    world.all_gather(mean, everyone)
    assert list(everyone) == [each + 1 for each in range(size)]
    counts = [each + 1 for each in range(size)]
    shares = floats(*[0] * sum(counts))
    world.all_gather_v(floats(*[rank] * counts[rank]), shares, counts)
    assert list(shares) == [each for each in range(size) for _ in range(counts[each])]
    mine = floats(0)
    world.reduce_scatter(everyone, mine)
    assert list(mine) == [size * (rank + 1)]
    exchanged = floats(*[0] * size)
    world.all_to_all(floats(*[10 * rank + each for each in range(size)]), exchanged)
    assert list(exchanged) == [10 * each + rank for each in range(size)]
    reduced = floats(1)
    world.reduce(reduced, root=size - 1)
    assert list(reduced) == [size if rank == size - 1 else 1]
    text = bytearray(b"from rank 0" if rank == 0 else 11)
    world.broadcast(text, root=0)
    step = array.array("q", [rank + 7])
    world.broadcast_state([step, text])
    assert text == b"from rank 0" and list(step) == [7]
    if size > 1:
        if rank == 0:
            world.send(floats(5), 1)
        elif rank == 1:
            received = floats(0)
            world.recv(received, 0)
            assert list(received) == [5]
    assert world.weighted_average(rank, 1) == (size - 1) / 2
    half = world.split(rank % 2)
    assert (half.rank, half.size) == (rank // 2, (size + 1 - rank % 2) // 2)
    world.barrier()
    job.barrier("end")

    store = job.store
    store.put(f"rank {rank}", bytes([rank, 0]))
    assert [store.get(f"rank {each}", 30) for each in range(size)] == [bytes([each, 0]) for each in range(size)]
    store.add("sum", rank + 1)
    store.append("text", "ab")
    first = store.compare_set("first", "", f"of {rank}")
    job.barrier("stored")
    assert (store.add("sum", 0), store.get("sum"), len(store.get("text"))) == (total, b"%d" % total, 2 * size)
    assert store.compare_set("first", "nothing", "x") == first and store.num_keys() == size + 3
    job.barrier("read")

    gradients = [floats(*[rank + parameter] * 3000) for parameter in range(4)]
    reducer = muster.Reducer(world, gradients)
    for step in range(2):
        for parameter in reversed(range(4)):
            reducer.ready(parameter)
        reducer.finish()
        assert [gradient[2999] for gradient in gradients] == [(size - 1) / 2 + parameter for parameter in range(4)], gradients
    try:
        reducer.ready(4)
    except muster.Error as error:
        assert error.code == "usage", error
    reducer.close()
    fixed = muster.Reducer(world, [floats(0)], "sum", chunks=7)
    assert fixed.own_chunks == muster.share_of(7, rank, size)

    saved = []
    job.on_rank_0("save", lambda: saved.append(rank))
    assert saved == ([0] if rank == 0 else [])
    try:
        job.on_rank_0("fail", lambda: 1 / 0)
    except ZeroDivisionError:
        assert rank == 0
    except muster.Error as error:
        assert rank > 0 and "fail: ZeroDivisionError: division by zero" in str(error) and error.code == "system", error
    else:
        raise AssertionError("the section's error was lost")
    print(f"rank {rank} of {size} on {world.backend} is done")
