#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# train_on_ranks.sh MPIRUN MUSTER_TRAIN: the same training on one, two and three ranks, with unequal shares of
# the global batch of 7.
# Validation losses must agree, parameters must be identical on all ranks, and the deterministic mode must
# give the same checkpoint for any number of ranks. A failing rank 0 and wrong settings must end all ranks.
set -eu
mpirun=$1 train=$2
# shellcheck source=tests/unit/trainer/scenarios/text_and_failures.sh
. "$(dirname "$0")/text_and_failures.sh"
write_text 600

run() {  # run RANKS OPTIONS…
  ranks=$1
  shift
  timeout 400 "$mpirun" --oversubscribe -n "$ranks" --bind-to none "$train" --data "$folder/text" --layers 1 --heads 2 --width 32 --context 24 --batch 7 \
    --steps 40 --warmup 5 --threads 1 --device cpu "$@"
}
last=checkpoints/step-00000040/tensors.safetensors

for ranks in 1 2 3; do
  run $ranks --output "$folder/run$ranks" > "$folder/log$ranks"
  grep -q "parameters identical on $ranks rank" "$folder/log$ranks" || fail "no line about identical parameters on $ranks ranks"
  sed -n 's/.*"step":40,"validation_loss":\([0-9.]*\),"validation_count":\([0-9]*\).*/\1 \2/p' "$folder/run$ranks/metrics.jsonl"
done > "$folder/losses"
cat "$folder/losses"
awk 'NR == 1 { loss = $1; bytes = $2 }
     { if ($2 != bytes || $1 - loss > 1e-3 || loss - $1 > 1e-3) bad = 1 }
     END { exit bad || NR != 3 || loss > 4 }' "$folder/losses" || fail "validation differs between numbers of ranks"

# The deterministic mode: for any number of ranks the same bits in the parameters, the optimizer's moments,
# and all metrics except times. Chunks of 2 of 15 sequences: the last one is shorter.
for ranks in 1 2 4 8; do
  run $ranks --batch 15 --deterministic --chunk 2 --dtype bf16 --steps 8 --output "$folder/rounded$ranks" > "$folder/log"
  cmp "$folder/rounded1/checkpoints/step-00000008/tensors.safetensors" "$folder/rounded$ranks/checkpoints/step-00000008/tensors.safetensors" ||
    fail "--deterministic --dtype=bf16 gives other bits on $ranks ranks"
  run $ranks --batch 15 --deterministic --chunk 2 --eval-every 20 --checkpoint-every 20 --output "$folder/fixed$ranks" > "$folder/log"
  cmp "$folder/fixed1/$last" "$folder/fixed$ranks/$last" ||
    fail "--deterministic gives other bits on $ranks ranks"
  sed 's/,"tokens_per_second".*//' "$folder/fixed$ranks/metrics.jsonl" > "$folder/numbers$ranks"
  [ "$(grep -c 'validation_loss' "$folder/numbers$ranks")" -eq 2 ] || fail "not two validations on $ranks ranks"
  cmp "$folder/numbers1" "$folder/numbers$ranks" || fail "--deterministic gives other metrics on $ranks ranks"
done
# The same with sharded optimizer state, resumed from a checkpoint that eight ranks saved without it.
rm -r "$folder/fixed8/checkpoints/step-00000040"
run 3 --batch 15 --deterministic --chunk 2 --eval-every 20 --shard-optimizer --output "$folder/fixed8" > "$folder/log"
grep -q 'resuming .*step-00000020' "$folder/log" || fail "the sharded run did not go on from step 20"
cmp "$folder/fixed1/$last" "$folder/fixed8/$last" || fail "--shard-optimizer gives other bits"
# Recomputed activations, on another number of ranks.
run 1 --batch 15 --layers 3 --deterministic --chunk 2 --steps 8 --output "$folder/kept" > "$folder/log"
run 2 --batch 15 --layers 3 --deterministic --chunk 2 --steps 8 --recompute --output "$folder/recomputed" > "$folder/log"
cmp "$folder/kept/checkpoints/step-00000008/tensors.safetensors" "$folder/recomputed/checkpoints/step-00000008/tensors.safetensors" ||
  fail "--recompute gives other bits"
# The Llama kind on any number of ranks: recomputed, with sharded optimizer state, in bf16, and resumed on another number.
llama() {  # llama RANKS OPTIONS…
  ranks=$1
  shift
  run "$ranks" --model llama --kv-heads 1 --batch 15 --layers 2 --deterministic --chunk 2 --dtype bf16 --eval-every 20 --checkpoint-every 20 "$@"
}
llama 1 --output "$folder/llama1" > "$folder/log"
llama 3 --recompute --output "$folder/llama3" > "$folder/log"
rm -r "$folder/llama3/checkpoints/step-00000040"
llama 2 --shard-optimizer --output "$folder/llama3" > "$folder/log"
grep -q 'resuming .*step-00000020' "$folder/log" || fail "the Llama's run did not go on from step 20"
cmp "$folder/llama1/$last" "$folder/llama3/$last" || fail "a Llama has other bits on other numbers of ranks"
run 2 --model llama --kv-heads 1 --micro-batch 2 --output "$folder/llama2" > "$folder/log"
grep -q 'parameters identical on 2 ranks' "$folder/log" || fail "a Llama's ranks differ with --micro-batch"
cmp -s "$folder/run1/$last" "$folder/run2/$last" &&
  fail "two ranks have the bits of one without --deterministic too: the comparison shows nothing"

# The same for the network on images, with dropout and with accuracy counted over unequal shares of 31 images.
"$train" make-data digits --output "$folder/digits" --train 150 --held-out 31 > "$folder/log"
for ranks in 1 3; do
  timeout 100 "$mpirun" --oversubscribe -n $ranks --bind-to none "$train" --model mnist-cnn --data "$folder/digits" --batch 10 --steps 20 --warmup 5 \
    --threads 1 --device cpu --deterministic --chunk 3 --output "$folder/images$ranks" > "$folder/log"
  grep -o 'over 31 images, .* right ([0-9]*)' "$folder/log" > "$folder/right$ranks" || fail "no line about right images on $ranks ranks"
done
last=checkpoints/step-00000020/tensors.safetensors
cmp "$folder/images1/$last" "$folder/images3/$last" || fail "mnist-cnn has other bits on 3 ranks"
cmp "$folder/right1" "$folder/right3" || fail "3 ranks count other right images"

# The same for a network with batch normalization, whose chunks have statistics of their own; on four ranks with sharded
# optimizer state and resumed from a checkpoint of one rank. Its last chunk is shorter.
"$train" make-data cifar --output "$folder/cifar" --train 60 --held-out 31 > "$folder/log"
residual() {  # residual RANKS NAME OPTIONS…
  ranks=$1 output=$2
  shift 2
  timeout 100 "$mpirun" --oversubscribe -n "$ranks" --bind-to none "$train" --model resnet20 --data "$folder/cifar" --image-size 8 --batch 14 \
    --steps 6 --warmup 2 --checkpoint-every 3 --threads 1 --device cpu --no-mfu --output "$folder/$output" "$@" > "$folder/log" ||
    fail "resnet20 on $ranks ranks ended with $?: $(tail -n 1 "$folder/log")"
}
last=checkpoints/step-00000006/tensors.safetensors
for dtype in fp32 bf16; do
  for ranks in 1 3; do
    residual $ranks "residual$ranks$dtype" --deterministic --chunk 4 --dtype $dtype
    grep -o 'over 31 images, .* right ([0-9]*)' "$folder/log" > "$folder/right$ranks" || fail "no line about resnet20's right images on $ranks ranks"
  done
  cmp "$folder/residual1$dtype/$last" "$folder/residual3$dtype/$last" || fail "resnet20 in $dtype has other bits on 3 ranks"
  cmp "$folder/right1" "$folder/right3" || fail "resnet20 in $dtype: 3 ranks count other right images"
  mkdir -p "$folder/residual4$dtype/checkpoints"
  cp -r "$folder/residual1$dtype/checkpoints/step-00000003" "$folder/residual4$dtype/checkpoints/"
  residual 4 "residual4$dtype" --deterministic --chunk 4 --dtype $dtype --shard-optimizer
  grep -q 'resuming .*step-00000003' "$folder/log" || fail "the sharded resnet20 did not go on from step 3"
  cmp "$folder/residual1$dtype/$last" "$folder/residual4$dtype/$last" || fail "resnet20 in $dtype has other bits, resumed on 4 ranks"
done
residual 2 residual2 --shard-optimizer
grep -q "parameters identical on 2 ranks" "$folder/log" || fail "no line about resnet20's identical parameters on 2 ranks"

# With --sync-batch-norm, three ranks with unequal shares train as one rank does, but for rounding.
for ranks in 1 3; do
  residual $ranks "together$ranks" --sync-batch-norm --learning-rate 1e-4 --min-learning-rate 1e-4
  sed -n 's/.*"train_loss":\([0-9.]*\),.*"gradient_norm":\([0-9.]*\),.*/\1 \2/p' "$folder/together$ranks/metrics.jsonl" > "$folder/losses$ranks"
done
residual 3 apart3 --learning-rate 1e-4 --min-learning-rate 1e-4
sed -n 's/.*"train_loss":\([0-9.]*\),.*"gradient_norm":\([0-9.]*\),.*/\1 \2/p' "$folder/apart3/metrics.jsonl" > "$folder/losses0"
# differ A B: whether a loss or a gradient norm differs by more than a thousandth.
differ() {
  paste "$1" "$2" | awk '{ for (i = 1; i < 3; i++) { d = ($i - $(i + 2)) / $i; if (d > 1e-3 || -d > 1e-3) found = 1 } } END { exit !(found || NR != 6) }'
}
if differ "$folder/losses1" "$folder/losses3"; then
  paste "$folder/losses1" "$folder/losses3"
  fail "--sync-batch-norm trains otherwise on 3 ranks"
fi
differ "$folder/losses1" "$folder/losses0" || fail "3 ranks train like one without --sync-batch-norm too: the comparison shows nothing"

# The summary of several ranks: the sum of their peaks, and the communication time of one step, which is not
# longer than the step.
python3 - "$folder/run3/summary.json" << 'END' || fail "the summary of three ranks"
import json, sys
s = json.load(open(sys.argv[1]))
peaks = [rank["peak_flops"] for rank in s["machine"]["ranks"]]
assert len(peaks) == 3 and min(peaks) > 0 and abs(s["peak_flops"] - sum(peaks)) <= 1e-9 * sum(peaks), (s["peak_flops"], peaks)
assert 0 < s["communication_seconds"] <= s["training_seconds"] / 40, (s["communication_seconds"], s["training_seconds"])
END

# A signal to one rank stops all ranks after the same step, also during a validation.
for every in 0 1; do
  begin signal$every 3 --steps 100000 --eval-every $every --checkpoint-every 0 --no-mfu
  await_training
  sleep 0.3
  signal_rank USR2 2
  code=0
  wait $started || code=$?
  [ $code -eq 0 ] || fail "ranks of which one got a signal ended with $code"
  grep -q 'stopped by signal 12 after step' "$folder/$begun.log" || fail "no line about one rank's signal"
  grep -q '"state":"unfinished"' "$folder/$begun/status.json" || fail "one rank's signal left the run in another state"
done

# The reader of the run's output has exited.
(
  code=0
  "$train" --data "$folder/text" --layers 1 --heads 2 --width 32 --context 24 --batch 7 --steps 20 --eval-every 1 --threads 1 --device cpu \
    --output "$folder/unread" || code=$?
  echo $code > "$folder/code"
) | head -n 1 > "$folder/log"
[ "$(cat "$folder/code")" -eq 0 ] || fail "a run whose output nobody reads ended with $(cat "$folder/code")"
grep -q '"state":"finished"' "$folder/unread/status.json" || fail "a run whose output nobody reads did not finish"

# A token beyond the vocabulary: one line with file and position, and all ranks end alike.
"$train" make-data language --format shards --output "$folder/language" --tokens 3000 --order 2 > "$folder/log"
code=0
run 3 --vocabulary 9 --data "$folder/language" --output "$folder/tokens" > "$folder/log" 2>&1 || code=$?
[ $code -eq 64 ] || fail "tokens beyond the vocabulary ended with $code, not 64"
[ "$(grep -c '^muster-train: .*bin: token [0-9]* at position [0-9]* is not below --vocabulary 9' "$folder/log")" -eq 1 ] ||
  fail "not exactly one line about a token beyond the vocabulary"

code=0
run 2 --output /dev/full > "$folder/log" 2>&1 || code=$?
[ $code -eq 71 ] || fail "an output folder that cannot be created ended with $code, not 71"
[ "$(grep -c '^muster-train: ' "$folder/log")" -eq 1 ] || fail "not exactly one line about it"
code=0
run 8 > "$folder/log" 2>&1 || code=$?
[ $code -eq 64 ] || fail "more ranks than sequences ended with $code, not 64"
grep -q 'less than one sample' "$folder/log" || fail "no line about it"
code=0
run 2 --layers 24 --width 128 --batch 170000 > "$folder/log" 2>&1 || code=$?
[ $code -eq 64 ] || fail "a batch beyond all memory ended with $code, not 64"
[ "$(grep -c '^muster-train: --batch 170000 needs .* for 2 ranks on .*: the largest that fits is --batch [0-9]*, [0-9]* samples* a rank, or this one with --micro-batch [0-9]*' "$folder/log")" -eq 1 ] ||
  fail "not exactly one line about a batch beyond all memory"

# Wrong settings: one line for the job. The ranks get different settings through a shell, because the mpirun
# of Open MPI 5.0.7 crashes (SIGSEGV) when the ranks are two programs.
# two PROGRAM ARGUMENT...: runs the program on two ranks.
two() { timeout 100 "$mpirun" --oversubscribe --bind-to none -n 2 "$@"; }
code=0
run 2 --lerning-rate 1 > "$folder/log" 2>&1 || code=$?
[ $code -eq 64 ] || fail "an unknown option ended with $code, not 64"
[ "$(grep -c '^muster-train: unknown option --lerning-rate; did you mean --learning-rate?' "$folder/log")" -eq 1 ] ||
  fail "not exactly one line about an unknown option"
code=0
# shellcheck disable=SC2016 # the ranks expand it
two bash -c 'MUSTER_TRAIN_SEED=$OMPI_COMM_WORLD_RANK exec "$@"' - "$train" --data "$folder/text" --output "$folder/seeds" --device cpu > "$folder/log" 2>&1 || code=$?
[ $code -eq 64 ] || fail "ranks with different settings ended with $code, not 64"
[ "$(grep -c '^muster-train: rank 1 was started with other options than rank 0' "$folder/log")" -eq 1 ] ||
  fail "not exactly one line about different settings"
cp "$folder/text" "$folder/0"
sed 's/line 300 /line 30O /' "$folder/text" > "$folder/1"
code=0
# shellcheck disable=SC2016
two bash -c 'exec "$0" --data "$1/$OMPI_COMM_WORLD_RANK" --output "$1/texts" --device cpu' "$train" "$folder" > "$folder/log" 2>&1 || code=$?
[ $code -eq 64 ] || fail "ranks with different data ended with $code, not 64"
[ "$(grep -c '^muster-train: rank 1 read other data from .* than rank 0' "$folder/log")" -eq 1 ] || fail "not exactly one line about different data"
