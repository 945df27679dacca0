#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# muster.jax.initialize(). Run by ./check --frameworks after tests/cluster/frameworks/install.
load ../setup

python=$MUSTER_BUILD/frameworks/pypi/bin/python3
setup() { [ -x "$python" ] || skip "$python is missing: run tests/cluster/frameworks/install"; }

# compute ARGUMENTS…: three ranks run jax_muster.py.
compute() {
  run env ON_RANKS_TIMEOUT=100 JAX_PLATFORMS=cpu MUSTER_LIBRARY="$MUSTER_BUILD/lib/libmuster.so.0" PYTHONPATH="$REPOSITORY/runtime/python" \
    "$REPOSITORY/tests/gpu/on_ranks" 3 "$python" -B "$REPOSITORY/tests/cluster/frameworks/jax_muster.py" "$@"
  echo "$output"
}
# loses HOW ARGUMENTS…: one line names the rank.
loses() {
  compute "${@:2}"
  [ "$(grep -cE "(.*/jax_muster.py|muster): rank $3 \(host .*\), pid [0-9]+, $1, while running, last call join" <<<"$output")" = 1 ]
  [[ $output != *Traceback* ]]
}

@test "JAX: processes find each other and compute" {
  compute end 0
  [ "$status" = 0 ]
  for rank in 0 1 2; do grep -qx "rank $rank of 3 sum 3" <<<"$output"; done
}

@test "JAX: the others name a process that is lost before jax.distributed.initialize()" {
  loses 'was killed by signal 9 \(Killed\)' absent 1
  [ "$status" = 75 ]
}

@test "JAX: the others name a killed process" {
  loses 'was killed by signal 9 \(Killed\)' kill 1
  [ "$status" = 75 ]
}

@test "JAX: the others name a stopped process" {
  loses 'is stopped, silent for 2 s' stop 1
  [ "$status" = 75 ]
}

@test "JAX: the others name the killed coordinator, and do not abort" {
  loses 'was killed by signal 9 \(Killed\)' kill 0
  [[ $output != *Aborted* ]]
}
