#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The survivors' behaviour after a failure: runs every case of failures.py once, several at a time on one lab;
# ./check --failures runs each 50 times.
load setup

setup_file() {
  lab_up --nodes 4 --gpus 2 --cpus 32 --plugin "$(plugin)"
  export FAILURES_FOLDER=$BATS_FILE_TMPDIR/failures RESULTS=$BATS_FILE_TMPDIR/results
  mkdir "$FAILURES_FOLDER"
  python3 "$REPOSITORY/tests/cluster/failures.py" --side-by-side 4 >"$RESULTS" 2>&1 || true
}
teardown_file() { lab_down; }

# went CASE: the case's line begins with ok; otherwise prints its output.
went() {
  if grep -q "^skipped $1:" "$RESULTS"; then skip "$(sed -n "s/^skipped $1: //p" "$RESULTS")"; fi
  grep -q "^ok $1:" "$RESULTS" || {
    cat "$RESULTS"
    return 1
  }
}

@test "a rank is killed with kill -9, its GPU is named" { went killed; }
@test "a rank is killed, and Slurm does not end the step" { went killed_over_pmix; }
@test "a rank ends with exit code 0 without leaving" { went exits; }
@test "a rank ends without leaving, is stopped, its slurmstepd or rank 0 is killed, its link goes down: without PMIx" {
  went exits_without_pmix
  went stopped_without_pmix
  went launcher_without_pmix
  went rank_0_without_pmix
  went link_without_pmix
}
@test "a rank is stopped" { went stopped; }
@test "a rank is stopped inside Open MPI's all-reduce" { went stopped_in_open_mpi; }
@test "a rank is stopped, and is detected after the default of 10 s" { went stopped_by_default; }
@test "a host's leader is stopped" { went stopped_leader; }
@test "a rank never joins" { went absent; }
@test "a rank is killed inside NCCL's initialisation" { went nccl; }
@test "the GPU of one rank does not answer, and only Muster ends the rank" { went sick_gpu; }
@test "a rank is killed, or ends, while NCCL's communicators reduce (on the fake CUDA and NCCL)" { went killed_on_gpus; went exits_on_gpus; }
@test "a rank is stopped, or rank 0 killed, while NCCL's communicators reduce (on the fake CUDA and NCCL)" { went stopped_on_gpus; went rank_0_on_gpus; }
@test "a node's link goes down" { went link; }
@test "a node's link goes down inside Open MPI's all-reduce" { went link_in_open_mpi; }
@test "a node's slurmstepd is killed" { went launcher; }
@test "a node's slurmstepd is killed inside Open MPI's all-reduce" { went launcher_in_open_mpi; }
@test "rank 0 is killed" { went rank_0; }
@test "a host's leader is killed inside Open MPI's all-reduce" { went leader_in_open_mpi; }
@test "rank 0 is killed inside Open MPI's all-reduce" { went rank_0_in_open_mpi; }
@test "rank 0 and another host's leader are killed at once" { went rank_0_and_leader; went rank_0_and_leader_in_open_mpi; }
@test "two ranks call different collectives" { went differs; }
@test "a rank computes and does not notice the loss" { went computes; }
@test "a rank computes, and Slurm kills the step" { went computes_over_pmix; }
@test "a program saves before it ends" { went saves; }
@test "ranks that have not entered a collective are named, and the job goes on" { went late; }
@test "the job goes on without a rank" { went shrinks; }
@test "the job goes on without rank 0" { went shrinks_without_rank_0; }
@test "the job goes on without a node" { went shrinks_by_a_node; }

@test "on NCCL the job goes on without a rank, and when one is lost later or while NCCL is initialised again (on fakes)" {
  went shrinks_on_gpus
  went shrinks_twice_on_gpus
  went shrinks_again_on_gpus
}

@test "nothing is left running" {
  run pgrep -f "^$MUSTER_BUILD/bin/surviving_ranks "
  [ "$status" = 1 ]
}
