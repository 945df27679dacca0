#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# torchrun --rdzv-backend=muster. Run by ./check --frameworks after tests/cluster/frameworks/install.
load ../setup

python=$MUSTER_BUILD/frameworks/gpus/bin/python3
setup_file() {
  [ -x "$python" ] || return 0
  # torchrun finds the backend by the metadata that pip installs.
  cp -r "$REPOSITORY/runtime/python" "$BATS_FILE_TMPDIR/source"
  "$python" -m pip install --quiet --no-deps --no-index --no-build-isolation --target "$BATS_FILE_TMPDIR/site" "$BATS_FILE_TMPDIR/source"
}
setup() { [ -x "$python" ] || skip "$python is missing: run tests/cluster/frameworks/install"; }

# torchrun NODES ARGUMENTS…: two agents, each with two workers.
torchrun() {
  run env ON_RANKS_TIMEOUT=150 OMP_NUM_THREADS=1 MUSTER_LIBRARY="$MUSTER_BUILD/lib/libmuster.so.0" PYTHONPATH="$BATS_FILE_TMPDIR/site" \
    "$REPOSITORY/tests/gpu/on_ranks" 2 "$python" -m torch.distributed.run --rdzv-backend=muster --nnodes="$1" --nproc-per-node=2 "${@:2}"
  echo "$output"
}
workers=$REPOSITORY/tests/cluster/frameworks/torchrun_workers.py

@test "torchrun: agents restart their workers together after one has failed" {
  torchrun 2 --max-restarts=1 "$workers" restart "$BATS_TEST_TMPDIR/failed"
  [ "$status" = 0 ]
  [ -e "$BATS_TEST_TMPDIR/failed" ]
  [ "$(grep -xE 'rank [0-3] of 4 sum 4' <<<"$output" | sort -u | wc -l)" = 4 ]
}

@test "torchrun: the other agent names a killed one, and ends its workers" {
  torchrun 2 "$workers" agent
  # of the killed agent, which is rank 0
  [ "$status" = 137 ]
  [ "$(grep -cE '/run.py: rank 0 \(host .*\), pid [0-9]+, was killed by signal 9 \(Killed\), while running, last call join' <<<"$output")" = 1 ]
  [[ $output != *Traceback* ]]
}

@test "torchrun: --nnodes that does not fit the job is one line of each agent" {
  torchrun 3 "$workers" end
  [ "$status" = 64 ]
  grep -q 'torchrun: --nnodes=3 does not fit the job, which has 2 ranks: start one torchrun on each node' <<<"$output"
  [[ $output != *Traceback* ]]
}
