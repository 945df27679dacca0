#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# autotune_on_ranks.sh MUSTER-TRAIN: two ranks on the fakes of CUDA, NCCL and cuBLASLt that the environment names.
# Both use the algorithms that are fastest on rank 0, whatever is fastest on rank 1. A resumed run on one rank times its
# new shapes, and prints so. The output folder lists the algorithm of every product, with how it was chosen.
set -euo pipefail
train=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for i in $(seq 100); do echo "line $i of a text that says little"; done > "$folder/text"

# run NAME RANKS TIMES_ON_RANK_0 TIMES_ON_RANK_1 [OPTION...]
run() {
  rm -rf "$folder/exchange-$1-$2"
  mkdir -p "$folder/exchange-$1-$2"
  # shellcheck disable=SC2016 # the inner shell expands it
  FAKE_NCCL_FOLDER=$folder/exchange-$1-$2 ON_RANKS_TIMEOUT=250 "$here/../../../gpu/on_ranks" "$2" bash -c '
    times=("$1" "$2"); shift 2
    FAKE_CUDA_PCI=0000:3$RANK:00.0 FAKE_CUBLASLT_TIMES=${times[RANK]} exec "$@"' - "$3" "$4" \
    "$train" "${@:5}" --device=cuda --data="$folder/text" --layers=1 --heads=1 --width=64 --context=8 --batch=4 --warmup=1 --steps=2 --checkpoint-every=1 \
    --validation-fraction=0 --eval-every=0 --no-mfu --no-tensorboard --output="$folder/$1" > "$folder/$1.log" 2>&1 || fail "$1"
}
fail() { echo "FAILED: $1"; tail -n 8 "$folder"/*.log; exit 1; }
tensors=checkpoints/step-00000002/tensors.safetensors
# lists NAME TEXT: the groups of ranks with the same algorithms, with all ways in which theirs were chosen.
lists() {
  local found
  found=$(python3 -c 'import json, sys
for group in json.load(open(sys.argv[1])):
    assert len(group["products"]) > 5 and group["gpu"] == "fake GPU", group
    print(*group["ranks"], *sorted({product["choice"] for product in group["products"]}))' "$folder/$1/matmul_plans.json")
  [ "$found" = "$2" ] || fail "$1 lists '$found', and not '$2'"
}

run equal 2 '5 9 1' '5 9 1'
run unequal 2 '5 9 1' '5 1 9'
run other 2 '5 1 9' '5 1 9'
run first 2 '5 1 9' '5 9 1' --no-autotune
lists unequal $'0 timed\n1 loaded'
lists first '0 1 first'
cmp "$folder/equal/$tensors" "$folder/unequal/$tensors" || fail "rank 1 did not use rank 0's algorithms"
! cmp -s "$folder/equal/$tensors" "$folder/other/$tensors" || fail "the algorithms made no difference"
rm -r "$folder/unequal/checkpoints/step-00000002"
run unequal 2 '5 9 1' '5 1 9'
cmp "$folder/equal/$tensors" "$folder/unequal/$tensors" || fail "a resumed run ends with other bytes"
lists unequal '0 1 loaded'
rm -r "$folder/equal/checkpoints/step-00000002"
run equal 1 '5 9 1' ''
grep -q 'note: the algorithms of .* matrix products were chosen anew (the checkpoint has no algorithm for them' "$folder/equal.log" ||
  fail "a run on another number of ranks did not print that it chose anew"
