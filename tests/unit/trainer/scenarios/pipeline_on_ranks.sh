#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pipeline_on_ranks.sh MPIRUN MUSTER_TRAIN: runs of --strategy=pipeline on several ranks. With --deterministic it writes the bits of
# data parallelism, and each goes on from the other's checkpoint, however the layers are divided. What ranks, layers and micro-batches do not allow is refused in
# one line. A lost rank ends the others with one line.
set -eu
mpirun=$1 train=$2
# shellcheck source=tests/unit/trainer/scenarios/text_and_failures.sh
. "$(dirname "$0")/text_and_failures.sh"
write_text 100

run() {  # run RANKS OPTIONS…
  ranks=$1
  shift
  timeout 400 "$mpirun" --oversubscribe -n "$ranks" --bind-to none "$train" --data "$folder/text" --layers 4 --heads 2 --width 16 --context 12 --batch 8 \
    --warmup 2 --schedule constant --threads 1 --device cpu --no-mfu --no-tensorboard "$@"
}
last=checkpoints/step-00000006/tensors.safetensors

run 1 --deterministic --steps 6 --output "$folder/whole" > "$folder/log"
run 4 --deterministic --strategy pipeline --stages 2 --steps 3 --output "$folder/parts" > "$folder/log"
grep -q '^pipeline: 2 pipelines of 2 ranks, 1f1b, 4 micro-batches; idle share of equal stages 20.0%' "$folder/log" || fail "no line about the pipeline"
grep -q "^ *1 *1,3 *3 .* 1 of 4 .*MiB  $(uname -n)\$" "$folder/log" || fail "no line about the second stage"
grep -q 'step 3/3 .* idle [0-9.]*%' "$folder/log" || fail "no measured idle share"
[ "$(grep -o '<title>[01][FB][0-3]: [0-9.]* ms</title>' "$folder/parts/report.html" | sort -u -t: -k1,1 | wc -l)" -eq 16 ] ||
  fail "the report does not draw 4 forward and 4 backward passes on each rank"
run 1 --deterministic --steps 4 --output "$folder/parts" > "$folder/log"
grep -q 'resuming .*step-00000003' "$folder/log" || fail "data parallelism did not go on from step 3"
run 2 --deterministic --strategy pipeline --pipeline-schedule interleaved-1f1b --virtual-stages 2 --steps 6 --output "$folder/parts" > "$folder/log"
grep -q 'resuming .*step-00000004' "$folder/log" || fail "the pipeline did not go on from step 4"
run 2 --deterministic --strategy pipeline --pipeline-schedule zb-h1 --steps 6 --output "$folder/zero-bubble" > "$folder/log"
grep -q '^ *1 *1 *3 .* 2 of 8 ' "$folder/log" || fail "no line about the second stage of zb-h1"
[ "$(grep -o '<title>[01][FIW][0-7]: [0-9.]* ms</title>' "$folder/zero-bubble/report.html" | sort -u -t: -k1,1 | wc -l)" -eq 48 ] ||
  fail "the report does not draw 8 passes of each of three kinds on each rank"
cmp "$folder/whole/$last" "$folder/zero-bubble/$last" || fail "zb-h1 has other bits than data parallelism"
cmp "$folder/whole/$last" "$folder/parts/$last" || fail "a pipeline has other bits than data parallelism"

# Layers that are divided by measured time.
for ranks in 2 3; do
  run $ranks --deterministic --strategy pipeline --balance time --steps 3 --output "$folder/timed-$ranks" > "$folder/log"
  grep -q '^ *stage *ranks *layers *parameters *FLOPs *measured *in flight' "$folder/log" || fail "no table of the measured stages"
  [ "$(grep -c '^ *[0-2] *[0-2] *[0-3]\(-[0-3]\)\{0,1\} .*%  *[0-9.]*[1-9][0-9.]* ms .* of 8 ' "$folder/log")" -eq "$ranks" ] ||
    fail "not $ranks measured stages: $(cat "$folder/log")"
  run $ranks --deterministic --strategy pipeline --balance time --steps 6 --output "$folder/timed-$ranks" > "$folder/log"
  grep -q 'resuming .*step-00000003' "$folder/log" || fail "the pipeline of $ranks measured stages did not go on from step 3"
  cmp "$folder/whole/$last" "$folder/timed-$ranks/$last" || fail "$ranks measured stages have other bits than data parallelism"
done

# refused RANKS TEXT OPTIONS…: one line, and exit code 64.
refused() {
  ranks=$1 expected=$2
  shift 2
  code=0
  run "$ranks" --strategy pipeline --output "$folder/refused" --steps 2 "$@" > "$folder/log" 2> "$folder/err" || code=$?
  [ $code -eq 64 ] || fail "$* on $ranks ranks ended with $code: $(cat "$folder/err")"
  [ "$(grep -c '^muster-train: ' "$folder/err")" -eq 1 ] || fail "not one line: $(cat "$folder/err")"
  grep -q -e "$expected" "$folder/err" || fail "another line than '$expected': $(cat "$folder/err")"
}
refused 3 '3 ranks are no multiple of --stages 2' --stages 2
refused 5 '4 layers for 5 stages'
refused 2 '1f1b needs at least as many micro-batches as stages, and 1 is fewer than 2' --micro-batches 1
refused 1 'one stage is no pipeline'

# A lost rank.
lose_rank 3 4 --strategy pipeline --stages 2 --steps 1000000 --eval-every 0 --checkpoint-every 0
