# SPDX-License-Identifier: Apache-2.0
# A job submitted by submitit; its ranks use the GPU that submitit's export leaves them. Usage:
# submitit_gpu_job.py FOLDER MUSTER-WORDS
import sys
import time

import submitit


def train():
    env = submitit.helpers.TorchDistributedEnvironment().export()
    import torch
    import torch.distributed as dist

    sys.path.insert(0, __file__.rsplit("/", 1)[0])
    from chosen_gpus import print_rank

    dist.init_process_group("gloo")
    torch.cuda.set_device(0)
    total = torch.tensor([float(env.rank)])
    dist.all_reduce(total)
    print_rank(env.rank, [torch.cuda.current_device()], total.item())


if __name__ == "__main__":
    executor = submitit.AutoExecutor(folder=sys.argv[1], cluster="slurm")
    executor.update_parameters(
        nodes=2, tasks_per_node=2, gpus_per_node=2, timeout_min=30, slurm_additional_parameters={"muster": sys.argv[2]}
    )
    job = executor.submit(train)
    for rank in range(4):
        task = job.task(rank)
        # Without sacct, which the lab does not have.
        deadline = time.monotonic() + 180
        while not task.paths.result_pickle.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        task.result()
        print(task.stdout(), flush=True)
