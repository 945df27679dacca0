#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pipeline_of_images.sh MPIRUN MUSTER_TRAIN: runs of --strategy=pipeline of networks on images. With --deterministic they write the bytes of data
# parallelism, running statistics included, however the blocks are divided, and each goes on from the other's checkpoint. What cannot be divided is refused
# in one line.
set -eu
mpirun=$1 train=$2
# shellcheck source=tests/unit/trainer/scenarios/text_and_failures.sh
. "$(dirname "$0")/text_and_failures.sh"
"$train" make-data cifar --output "$folder/cifar" --train 60 --held-out 40 > "$folder/log"
"$train" make-data digits --output "$folder/digits" --train 60 --held-out 40 > "$folder/log"
"$train" make-data pictures --output "$folder/pictures" --train 40 --held-out 20 --bad > "$folder/log"

run() {  # run RANKS OPTIONS…
  ranks=$1
  shift
  timeout 300 "$mpirun" --oversubscribe -n "$ranks" --bind-to none "$train" --model resnet20 --data "$folder/cifar" --image-size 16 --batch 8 --steps 4 \
    --warmup 1 --checkpoint-every 2 --keep 9 --threads 1 --device cpu --no-mfu --no-tensorboard "$@" > "$folder/log" 2> "$folder/err" ||
    fail "$* on $ranks ranks ended with $?: $(cat "$folder/err")"
}
pipeline() {  # pipeline RANKS OPTIONS…
  ranks=$1
  shift
  run "$ranks" --strategy pipeline --deterministic --chunk 2 "$@"
}
last=checkpoints/step-00000004/tensors.safetensors
same() { cmp "$folder/$1/$last" "$folder/$2/$last" || fail "$2 has other bytes than $1"; }
right() { grep -o 'validation loss .* over [0-9]* images, .* right ([0-9]*), after step 4' "$folder/log" || fail "no line about right images"; }

run 1 --deterministic --chunk 2 --output "$folder/whole"
right > "$folder/right"
pipeline 2 --output "$folder/two"
same whole two
right | cmp - "$folder/right" || fail "two stages count other right images"
grep -q '^ *stage *ranks *blocks ' "$folder/log" || fail "no table of the stages' blocks"
pipeline 3 --pipeline-schedule gpipe --balance time --output "$folder/timed"
same whole timed
grep -q '^ *stage *ranks *blocks .* measured ' "$folder/log" || fail "no table of the measured stages"
pipeline 2 --pipeline-schedule interleaved-1f1b --virtual-stages 2 --balance memory --shard-optimizer --output "$folder/interleaved"
same whole interleaved

# From one strategy to the other.
for from in whole interleaved; do
  mkdir -p "$folder/from-$from/checkpoints"
  cp -r "$folder/$from/checkpoints/step-00000002" "$folder/from-$from/checkpoints/"
done
pipeline 4 --stages 2 --output "$folder/from-whole"
grep -q 'resuming .*step-00000002' "$folder/log" || fail "the pipeline did not go on from step 2"
same whole from-whole
run 1 --deterministic --chunk 2 --output "$folder/from-interleaved"
grep -q 'resuming .*step-00000002' "$folder/log" || fail "data parallelism did not go on from step 2"
same whole from-interleaved

# A network with dropout in two stages.
run 1 --model mnist-cnn --data "$folder/digits" --image-size 0 --deterministic --chunk 2 --output "$folder/digits-1"
pipeline 2 --model mnist-cnn --data "$folder/digits" --image-size 0 --output "$folder/digits-2"
same digits-1 digits-2
pipeline 2 --model mnist-cnn --data "$folder/digits" --image-size 0 --pipeline-schedule zb-h1 --output "$folder/digits-halves"
same digits-1 digits-halves

# Other networks, and pictures of which some cannot be used: the last stage has to know the labels of those that replace them.
for model in mobilenet-v1 resnet50; do
  set -- --model "$model" --data "$folder/pictures" --image-size 32 --on-bad-image skip --dtype bf16
  if [ $model = resnet50 ]; then set -- "$@" --batch 4; else set -- "$@" --width-multiplier 0.25; fi
  run 1 --deterministic --chunk 2 --output "$folder/$model" "$@"
  right > "$folder/right"
  pipeline 2 --balance parameters --output "$folder/$model-2" "$@"
  same "$model" "$model-2"
  right | cmp - "$folder/right" || fail "two stages of $model count other right images"
done

# Statistics over two pipelines, whose shares of a batch are unequal, and a warning where there is one pipeline.
run 4 --strategy pipeline --stages 2 --batch 9 --pipeline-schedule zb-h1 --sync-batch-norm --output "$folder/together"
right > "$folder/right"
run 2 --strategy pipeline --sync-batch-norm --output "$folder/one"
grep -q 'sync-batch-norm has no effect on 1 pipeline' "$folder/err" "$folder/log" || fail "no warning about one pipeline"

# refused RANKS TEXT OPTIONS…: one line, and exit code 64.
refused() {
  ranks=$1 expected=$2
  shift 2
  code=0
  timeout 100 "$mpirun" --oversubscribe -n "$ranks" --bind-to none "$train" --model resnet20 --data "$folder/cifar" --strategy pipeline \
    --output "$folder/refused" --steps 2 --no-mfu "$@" > "$folder/log" 2> "$folder/err" || code=$?
  [ $code -eq 64 ] || fail "$* on $ranks ranks ended with $code: $(cat "$folder/err")"
  [ "$(grep -c '^muster-train: ' "$folder/err")" -eq 1 ] || fail "not one line: $(cat "$folder/err")"
  grep -q -e "$expected" "$folder/err" || fail "another line than '$expected': $(cat "$folder/err")"
}
refused 2 '11 blocks for 12 stages: give --stages and --virtual-stages that the blocks suffice for' --device cpu --pipeline-schedule interleaved-1f1b \
  --virtual-stages 6 --batch 8
refused 4 '--sync-batch-norm contradicts --deterministic' --device cpu --stages 2 --sync-batch-norm --deterministic --chunk 2
