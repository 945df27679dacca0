#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# central_storage_on_ranks.sh MPIRUN MUSTER_TRAIN: runs of --strategy=central-storage on several ranks. Each has the bits of data
# parallelism, also where one goes on from the other's checkpoint. Without memory to share, one line says so. A lost rank ends the
# others with one line and leaves nothing behind.
set -eu
mpirun=$1 train=$2
# shellcheck source=tests/unit/trainer/scenarios/text_and_failures.sh
. "$(dirname "$0")/text_and_failures.sh"
write_text 200

run() {  # run RANKS OPTIONS…
  ranks=$1
  shift
  timeout 400 "$mpirun" --oversubscribe -n "$ranks" --bind-to none "$train" --data "$folder/text" --layers 1 --heads 2 --width 16 --context 12 --batch 7 \
    --warmup 2 --schedule constant --threads 1 --device cpu --no-mfu --no-tensorboard --deterministic "$@"
}
central="--strategy central-storage"
last=checkpoints/step-00000012/tensors.safetensors

# shellcheck disable=SC2086 # several options
{
  run 1 --steps 12 --output "$folder/whole" > "$folder/log"
  run 3 $central --steps 4 --output "$folder/parts" > "$folder/log"
  grep -q 'shared parameters .*, shared moments ' "$folder/log" || fail "no line about the shared memory"
  grep -q 'parameters identical on 3 ranks' "$folder/log" || fail "no line about identical parameters"
  run 2 --shard-optimizer --steps 8 --output "$folder/parts" > "$folder/log"
  run 2 $central --steps 12 --output "$folder/parts" > "$folder/log"
  grep -q 'resuming .*step-00000008' "$folder/log" || fail "the run did not go on from step 8"
  cmp "$folder/whole/$last" "$folder/parts/$last" || fail "central storage has other bits than one process"
}

# A lost rank.
lose_rank 2 3 --strategy central-storage --steps 100000 --eval-every 0 --checkpoint-every 0
[ -z "$(find /dev/shm -name '*muster*' -newer "$folder/text")" ] || fail "a lost rank left memory in /dev/shm"
