# SPDX-License-Identifier: Apache-2.0
# A job submitted by submitit; its ranks use the variables that submitit exports. Prints one line per rank.
# Usage: submitit_job.py FOLDER MUSTER-WORDS
import sys
import time

import submitit


def train():
    import torch
    import torch.distributed

    env = submitit.helpers.TorchDistributedEnvironment().export()
    torch.distributed.init_process_group("gloo")
    total = torch.tensor([float(env.rank)])
    torch.distributed.all_reduce(total)
    return f"submitit {submitit.__version__} rank {env.rank} of {env.world_size} sum {total.item():.0f}"


if __name__ == "__main__":
    executor = submitit.AutoExecutor(folder=sys.argv[1], cluster="slurm")
    executor.update_parameters(
        nodes=2, tasks_per_node=2, timeout_min=30, slurm_additional_parameters={"muster": sys.argv[2]}
    )
    job = executor.submit(train)
    for rank in range(4):
        # Without sacct, which the lab does not have.
        deadline = time.monotonic() + 90
        while not job.task(rank).paths.result_pickle.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        print(job.task(rank).result(), flush=True)
