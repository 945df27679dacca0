#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# late_on_gpu.sh MUSTER-TRAIN: runs of several ranks on the fakes of CUDA, NCCL, cuBLASLt and cuDNN that the environment names. Where the
# fakes work as late as possible or in a random order, they end with the bytes and losses of the run whose work is done at once.
set -euo pipefail
train=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/unit/trainer/scenarios/text_and_failures.sh
. "$here/text_and_failures.sh"
write_text 25

# run NAME RANKS OPTION...
run() {
  local name=$1 ranks=$2
  shift 2
  mkdir "$folder/exchange-$name"
  FAKE_NCCL_FOLDER=$folder/exchange-$name ON_RANKS_TIMEOUT=250 "$here/../../../gpu/on_ranks" "$ranks" "$here/../../../gpu/as_own_host" \
    "$train" --device=cuda --data="$folder/text" --layers=1 --heads=1 --width=64 --context=8 --batch=4 --warmup=1 --steps=3 \
    --validation-fraction=0.1 --eval-every=1 --no-mfu --no-tensorboard --output="$folder/$name" "$@" > "$folder/$name.log" 2>&1 ||
    fail "$name: $(tail -n 5 "$folder/$name.log")"
  grep -o '"[a-z]*_loss":[0-9.]*' "$folder/$name/metrics.jsonl" > "$folder/$name.losses"
  [ "$(wc -l < "$folder/$name.losses")" -eq 6 ] || fail "$name has not three training and three validation losses"
}
tensors=checkpoints/step-00000003/tensors.safetensors
# same AS NAME RANKS OPTION...
same() {
  local as=$1
  shift
  run "$@"
  cmp "$folder/$as/$tensors" "$folder/$1/$tensors" || fail "$1 ends with other bytes than $as"
  cmp "$folder/$as.losses" "$folder/$1.losses" || fail "$1 has other losses than $as"
}

run sharded 2 --shard-optimizer
FAKE_CUDA=late same sharded sharded-late 2 --shard-optimizer
FAKE_CUDA_SEED=1 same sharded sharded-seed 2 --shard-optimizer
FAKE_CUDA=late same sharded elastic-late 2 --shard-optimizer --elastic=1

central=(--strategy=central-storage --threads=1 --deterministic --chunk=1)
run central 2 "${central[@]}"
FAKE_CUDA=late same central central-late 2 "${central[@]}"

served=(--strategy=parameter-server --threads=1 --servers=1 --deterministic --chunk=1)
run served 3 "${served[@]}"
FAKE_CUDA=late same served served-late 3 "${served[@]}"
