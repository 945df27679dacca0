#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# images_on_ranks.sh MPIRUN MUSTER_TRAIN: runs of a network on images by strategies that replicate it. With --deterministic central storage and parameter servers
# write the bytes of data parallelism, running statistics included, and go on from each other's checkpoint. Local SGD that was stopped writes the bytes of a run
# that was not. Pipelines: pipeline_of_images.sh; lost ranks: elastic_ranks.py.
set -eu
mpirun=$1 train=$2
# shellcheck source=tests/unit/trainer/scenarios/text_and_failures.sh
. "$(dirname "$0")/text_and_failures.sh"
"$train" make-data cifar --output "$folder/cifar" --train 60 --held-out 40 > "$folder/log"

run() {  # run RANKS OPTIONS…
  ranks=$1
  shift
  timeout 300 "$mpirun" --oversubscribe -n "$ranks" --bind-to none "$train" --model resnet20 --data "$folder/cifar" --image-size 16 --batch 8 --warmup 1 \
    --checkpoint-every 2 --keep 9 --threads 1 --device cpu --no-mfu --no-tensorboard "$@" > "$folder/log" 2> "$folder/err" ||
    fail "$* on $ranks ranks ended with $?: $(cat "$folder/err")"
  [ "$ranks" -eq 1 ] || grep -q "parameters identical on $ranks ranks" "$folder/log" || fail "$* on $ranks ranks: no line about identical parameters"
}
last=checkpoints/step-00000004/tensors.safetensors
same() { cmp "$folder/$1/$last" "$folder/$2/$last" || fail "$2 has other bytes than $1"; }
resumed() { grep -q 'resuming .*step-00000002' "$folder/log" || fail "the run did not go on from step 2"; }

exact="--deterministic --chunk 2 --schedule constant" central="--strategy central-storage" served="--strategy parameter-server --servers 1"
# shellcheck disable=SC2086 # several options
{
  run 1 $exact --steps 4 --output "$folder/whole"
  run 2 $exact $central --steps 4 --output "$folder/central"
  same whole central
  run 3 $exact $served --steps 2 --output "$folder/parts"
  run 2 $exact $central --steps 4 --output "$folder/parts"
  resumed
  same whole parts
  rm -r "$folder/central/checkpoints/step-00000004"
  run 3 $exact $served --steps 4 --output "$folder/central"
  resumed
  same whole central
}

local="--strategy local-sgd --sync-every 2 --schedule constant"
# shellcheck disable=SC2086 # several options
{
  run 2 $local --steps 4 --output "$folder/local"
  grep -q 'step 4/4 .* 2 averages' "$folder/log" || fail "no line about the averages"
  run 2 $local --steps 2 --output "$folder/local-parts"
  run 2 $local --steps 4 --output "$folder/local-parts"
  resumed
  same local local-parts
}
