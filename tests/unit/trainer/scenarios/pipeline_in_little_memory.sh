#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pipeline_in_little_memory.sh MPIRUN MUSTER_TRAIN: under a limit of the kernel on each process's memory (RLIMIT_DATA), one rank cannot
# train a model that four ranks of a pipeline train.
set -eu
mpirun=$1 train=$2
# shellcheck source=tests/unit/trainer/scenarios/text_and_failures.sh
. "$(dirname "$0")/text_and_failures.sh"
write_text 100

# 14.3 million parameters, 57 MB of them: one rank needs seven times that (parameters, gradients, two moments, and a copy of three
# of them for checkpoints), and rank 0 of four a quarter of four of them and the copy.
run() {  # run RANKS OPTIONS…
  ranks=$1
  shift
  timeout 100 "$mpirun" --oversubscribe -n "$ranks" --bind-to none sh -c 'ulimit -d 460000 && exec "$@"' limited "$train" --data "$folder/text" \
    --layers 8 --heads 6 --width 384 --context 12 --batch 4 --deterministic --steps 1 --warmup 0 --eval-every 0 --threads 1 --device cpu --no-mfu \
    --no-tensorboard "$@"
}
code=0
run 1 --output "$folder/one" > "$folder/log" 2>&1 || code=$?
[ $code -eq 71 ] || fail "one rank in little memory ended with $code: $(cat "$folder/log")"
[ "$(grep -c '^muster-train: out of memory: use a smaller model' "$folder/log")" -eq 1 ] || fail "not one line: $(cat "$folder/log")"
run 4 --strategy pipeline --output "$folder/four" > "$folder/log" 2>&1 || fail "four ranks do not train it: $(cat "$folder/log")"
grep -q 'step 1/1 ' "$folder/log" || fail "no step: $(cat "$folder/log")"
