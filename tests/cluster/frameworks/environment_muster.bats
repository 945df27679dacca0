#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Lightning and accelerate below a plain mpirun. Run by ./check --frameworks after tests/cluster/frameworks/install.
load ../setup

python=$MUSTER_BUILD/frameworks/gpus/bin/python3
setup() { [ -x "$python" ] || skip "$python is missing: run tests/cluster/frameworks/install"; }

@test "Lightning and accelerate: below mpirun, from the variables of muster.torch.set_environment()" {
  for library in lightning accelerate; do
    run env OMP_NUM_THREADS=1 MUSTER_LIBRARY="$MUSTER_BUILD/lib/libmuster.so.0" PYTHONPATH="$REPOSITORY/runtime/python" timeout 150 mpirun \
      --allow-run-as-root --oversubscribe --bind-to none -n 2 "$python" -B "$REPOSITORY/tests/cluster/frameworks/environment_muster.py" $library
    echo "$output"
    [ "$status" = 0 ]
    for rank in 0 1; do grep -q "rank $rank of 2 sum 1" <<<"$output"; done
  done
}
