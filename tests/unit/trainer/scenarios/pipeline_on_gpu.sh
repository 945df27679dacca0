#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pipeline_on_gpu.sh MUSTER-TRAIN: pipelines of several ranks on the fakes of CUDA, NCCL, cuBLASLt and cuDNN that the environment names,
# whose work is done as late as possible or in a random order. All end with the bytes and the losses of one rank: of a GPT, a Llama and of
# networks on images.
set -euo pipefail
train=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/unit/trainer/scenarios/text_and_failures.sh
. "$here/text_and_failures.sh"
write_text 25

text=(--data="$folder/text" --layers=4 --context=8 --batch=4 --validation-fraction=0.1)
model=("${text[@]}" --heads=1 --width=64) mode=(--deterministic --chunk=1)
# run NAME RANKS OPTION...
run() {
  local name=$1 ranks=$2
  shift 2
  mkdir "$folder/exchange-$name"
  FAKE_NCCL_FOLDER=$folder/exchange-$name ON_RANKS_TIMEOUT=250 "$here/../../../gpu/on_ranks" "$ranks" "$here/../../../gpu/as_own_host" \
    "$train" --device=cuda "${model[@]}" "${mode[@]}" --warmup=1 --steps=2 --eval-every=1 --no-mfu --no-tensorboard --output="$folder/$name" \
    "$@" > "$folder/$name.log" 2>&1 ||
    fail "$name: $(tail -n 5 "$folder/$name.log")"
  grep -o '"[a-z]*_loss":[0-9.]*' "$folder/$name/metrics.jsonl" > "$folder/$name.losses"
  [ "$(wc -l < "$folder/$name.losses")" -eq 4 ] || fail "$name has not two training and two validation losses"
}
tensors=checkpoints/step-00000002/tensors.safetensors

whole=whole
run $whole 1
# same NAME RANKS OPTION...
same() {
  run "$@" --strategy=pipeline
  cmp "$folder/$whole/$tensors" "$folder/$1/$tensors" || fail "$1 ends with other bytes than one rank"
  cmp "$folder/$whole.losses" "$folder/$1.losses" || fail "$1 has other losses than one rank"
}
FAKE_CUDA=late same late-1f1b 2
FAKE_CUDA=late same late-gpipe 3 --pipeline-schedule=gpipe --balance=time
grep -q '^ *2 *2 .*[1-9].* ms ' "$folder/late-gpipe.log" || fail "no line about the third measured stage"
FAKE_CUDA=late same late-pipelines 4 --stages=2
FAKE_CUDA_SEED=1 same seed-interleaved 2 --pipeline-schedule=interleaved-1f1b --virtual-stages=2
FAKE_CUDA_SEED=2 same seed-1f1b 2 --balance=time
FAKE_CUDA=late same late-zb-h1 3 --pipeline-schedule=zb-h1
FAKE_CUDA_SEED=5 same seed-zb-h1 2 --pipeline-schedule=zb-h1

# The micro-batches of a rank are added in the same order by all schedules.
mode=() whole=added
run $whole 2 --strategy=pipeline
FAKE_CUDA_SEED=6 same added-zb-h1 2 --pipeline-schedule=zb-h1
model=("${text[@]}" --model=llama --heads=2 --kv-heads=1 --width=64) mode=(--deterministic --chunk=1) whole=llama
run $whole 1
FAKE_CUDA_SEED=7 same llama-zb-h1 2 --pipeline-schedule=zb-h1

# Blocks with shortcuts, whose gradients have two parts; more validation images than a micro-batch has.
"$train" make-data cifar --output "$folder/cifar" --train 12 --held-out 5 > "$folder/data.log"
model=(--model=resnet20 --data="$folder/cifar" --image-size=8 --batch=8) mode=(--deterministic --chunk=2) whole=resnet
run $whole 1
FAKE_CUDA=late same late-resnet 2
FAKE_CUDA=late same late-resnets 4 --stages=2 --pipeline-schedule=gpipe --shard-optimizer
FAKE_CUDA_SEED=3 same seed-resnet 2 --pipeline-schedule=interleaved-1f1b --virtual-stages=2 --balance=time
FAKE_CUDA=late same late-resnet-zb-h1 2 --pipeline-schedule=zb-h1
# Batch statistics over two pipelines: a sum over two ranks commutes, so all schedules have the bits of gpipe.
mode=() whole=synced
run $whole 4 --strategy=pipeline --stages=2 --pipeline-schedule=gpipe --sync-batch-norm
FAKE_CUDA=late same late-synced 4 --stages=2 --sync-batch-norm
FAKE_CUDA_SEED=9 same seed-synced-zb-h1 4 --stages=2 --pipeline-schedule=zb-h1 --sync-batch-norm
# Dropout in two stages.
mode=(--deterministic --chunk=2)
"$train" make-data digits --output "$folder/digits" --train 12 --held-out 5 > "$folder/data.log"
model=(--model=mnist-cnn --data="$folder/digits" --batch=8) whole=digits
run $whole 1
FAKE_CUDA_SEED=4 same seed-digits 3
FAKE_CUDA_SEED=8 same seed-digits-zb-h1 3 --pipeline-schedule=zb-h1
