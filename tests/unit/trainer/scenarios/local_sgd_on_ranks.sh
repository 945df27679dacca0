#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# local_sgd_on_ranks.sh MPIRUN MUSTER_TRAIN: runs of --strategy=local-sgd on several ranks. A run that was stopped has the same
# bits as one that was not, and a run on another number of ranks and by another strategy goes on from its checkpoint. A lost rank
# ends the others with one line.
set -eu
mpirun=$1 train=$2
# shellcheck source=tests/unit/trainer/scenarios/text_and_failures.sh
. "$(dirname "$0")/text_and_failures.sh"
write_text 200

run() {  # run RANKS OPTIONS…
  ranks=$1
  shift
  timeout 400 "$mpirun" --oversubscribe -n "$ranks" --bind-to none "$train" --data "$folder/text" --layers 1 --heads 2 --width 16 --context 12 --batch 7 \
    --warmup 2 --schedule constant --threads 1 --device cpu --no-mfu --no-tensorboard "$@"
}
local="--strategy local-sgd --sync-every 3 --outer-optimizer nesterov --eval-every 6 --checkpoint-every 6"
last=checkpoints/step-00000012/tensors.safetensors

# shellcheck disable=SC2086 # several options
{
  run 3 $local --steps 12 --output "$folder/whole" > "$folder/log"
  grep -q 'step 12/12 .* 4 averages, .* MB/step' "$folder/log" || fail "no line about the averages"
  grep -q 'parameters identical on 3 ranks' "$folder/log" || fail "no line about identical parameters"
  run 3 $local --steps 6 --output "$folder/parts" > "$folder/log"
  run 3 $local --steps 12 --output "$folder/parts" > "$folder/log"
  grep -q 'resuming .*step-00000006' "$folder/log" || fail "the run did not go on from step 6"
  cmp "$folder/whole/$last" "$folder/parts/$last" || fail "a resumed run has other bits"
  run 2 $local --steps 15 --output "$folder/parts" > "$folder/log"
  grep -q 'made with 3 ranks, now 2, with --strategy=local-sgd' "$folder/log" || fail "no note about another number of ranks"
}
run 2 --steps 16 --shard-optimizer --output "$folder/parts" > "$folder/log"
grep -q 'made with .*--strategy=local-sgd, now data-parallel' "$folder/log" || fail "no note about another strategy"
grep -q 'validation loss .*, after step 16' "$folder/log" || fail "data parallelism did not go on"

# Workers of two ranks.
# shellcheck disable=SC2086 # several options
{
  run 3 $local --steps 12 --worker-ranks 2 --output "$folder/odd" > "$folder/log" 2>&1 && fail "two ranks a worker were accepted on three ranks"
  grep -q 'worker-ranks 2 does not divide 3 ranks' "$folder/log" || fail "no line about an odd number of ranks"
  run 4 $local --steps 12 --worker-ranks 2 --wire-dtype bf16 --output "$folder/workers" > "$folder/log"
  grep -q 'averaged every 3 steps over 2 workers of 2 ranks each' "$folder/log" || fail "no line about workers of two ranks"
  grep -q 'parameters identical on 4 ranks' "$folder/log" || fail "workers of two ranks have other parameters than each other"
}

endless="3 --strategy local-sgd --sync-every 50000 --steps 100000 --eval-every 0 --checkpoint-every 0"

# A signal to one rank ends all ranks after the same step, with an average and a checkpoint between two that were due.
# shellcheck disable=SC2086 # several options
begin signal $endless
await_training
signal_rank USR2 2
code=0
wait $started || code=$?
[ $code -eq 0 ] || fail "ranks of which one got a signal ended with $code"
grep -q 'stopped by signal 12 after step' "$folder/signal.log" || fail "no line about one rank's signal"
grep -q 'parameters identical on 3 ranks' "$folder/signal.log" || fail "no average after a signal"
grep -q '"state":"unfinished"' "$folder/signal/status.json" || fail "one rank's signal left the run in another state"

# A lost rank.
# shellcheck disable=SC2086 # several options
lose_rank 2 $endless
