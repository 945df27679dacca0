#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# use_trained_weights.sh MPIRUN MUSTER_TRAIN TOKENIZER: uses trained models. Each export has the validation loss of
# the run, on one rank and on three, and starts another run; wrong uses end with one line.
set -eu
mpirun=$1 train=$2 tokenizer=$3
# shellcheck source=tests/unit/trainer/scenarios/text_and_failures.sh
. "$(dirname "$0")/text_and_failures.sh"
cd "$folder"
on_ranks() {  # on_ranks N ARGUMENTS…
  ranks=$1
  shift
  timeout 100 "$mpirun" --oversubscribe -n "$ranks" --bind-to none "$train" "$@"
}
run_training() { "$train" --device cpu --threads 1 --no-mfu --no-tensorboard --batch 4 "$@"; }
# refused TEXT ARGUMENTS…: must end with one line that has this text.
refused() {
  text=$1
  shift
  if "$train" "$@" > out 2> err; then fail "$* was not refused"; fi
  [ "$(wc -l < err)" = 1 ] || fail "$* gave other than one line: $(cat err)"
  grep -qF -- "$text" err || fail "$* said: $(cat err)"
}

write_text 300
run_training --data text --layers 2 --heads 2 --width 16 --context 20 --steps 20 --output run > log
loss=$(sed -n 's/.*"validation_loss": \([0-9.]\{8\}\).*/\1/p' run/summary.json | head -n 1)
[ -n "$loss" ] || fail "the run has no validation loss"

# evaluated WHAT…: prints the first digits of the loss on the part that the run held out.
evaluated() { "$train" evaluate "$@" --data text --validation-fraction 0.1 | sed -n 's/^loss \([0-9.]*\) .*/\1/p'; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && a - b < 2e-6 && b - a < 2e-6) }' || fail "loss $1 is not $2 ($3)"; }
near "$(evaluated run)" "$loss" "the run"
"$train" export run > log
"$train" export run/checkpoints/step-00000020 --format llm.c > log
"$train" export muster-model --format=safetensors > log
for weights in muster-model muster-model.bin muster-model.safetensors run/checkpoints; do
  near "$(evaluated $weights)" "$loss" $weights
done
near "$(evaluated muster-model --batch 3 --threads 2)" "$loss" "another batch"
one=$("$train" evaluate run --data text | grep '^loss') three=$(on_ranks 3 evaluate run --data text | grep '^loss')
[ "$one" = "$three" ] || fail "three ranks evaluate '$three', one '$one'"
echo "$one" | grep -q "over $(($(wc -c < text) - 1)) bytes" || fail "not all bytes were predicted: $one"

# A new run begins where the weights are: without steps that change anything, with their loss.
for weights in muster-model muster-model.bin; do
  rm -rf next
  run_training --data text --init-from $weights --steps 1 --learning-rate 1e-30 --min-learning-rate 0 --warmup 0 --output next > log
  grep -q '^gpt: 2 layers, 2 heads, width 16, context 20, vocabulary 256' log || fail "--init-from $weights has other sizes"
  near "$(evaluated next)" "$loss" "--init-from $weights"
done
on_ranks 2 --device cpu --threads 1 --no-mfu --batch 4 --data text --init-from muster-model --steps 3 --output ranks > log
grep -q 'parameters identical on 2 ranks' log || fail "two ranks did not start from the same weights"

# Generation: greedy text is the same from each format, and any text with any number of threads.
generated() { "$train" generate "$@" --tokens 40 2> log; }
greedy=$(generated run --prompt 'line 7' --temperature 0)
[ "$(generated muster-model.safetensors --prompt 'line 7' --temperature 0)" = "$greedy" ] || fail "the export generates another text"
[ "$(generated muster-model.bin --tokenizer bytes --prompt 'line 7' --temperature 0)" = "$greedy" ] || fail "llm.c's file generates another text"
grep -q 'read 6 tokens in .* generated 40 tokens in .* tokens/s' log || fail "no speed in: $(cat log)"
[ "$(printf 'line 7' | generated run --temperature 0)" = "$greedy" ] || fail "standard input is not the prompt"
[ "line 7$(generated run --prompt 'line 7' --temperature 0 --no-echo)" = "$greedy" ] || fail "--no-echo prints another text"
generated run --prompt line --seed 3 --threads 1 > one
generated run --prompt line --seed 3 --threads 3 > three
generated run --prompt line --seed 4 > another
cmp one three || fail "three threads draw another text"
cmp -s one another && fail "another seed draws the same text"
[ "$(wc -c < one)" = 44 ] || fail "not 40 bytes after the prompt"
refused 'the prompt is empty' generate run --prompt ''
refused 'does not say how text becomes its tokens' generate muster-model.bin --prompt x
refused 'has a tokenizer: leave --tokenizer out' generate run --prompt x --tokenizer bytes
refused 'must be a number from 0 to 1000' generate run --prompt x --temperature -1
refused 'must be a number above 0' generate run --prompt x --top-p 0
for option in '--top-k 5' '--top-p 0.5' '--seed 2'; do
  # shellcheck disable=SC2086 # an option and its value
  refused "${option% *} has no effect with --temperature 0" generate run --prompt x --temperature 0 $option
done
refused '--threads has no effect with --device=cuda' generate run --prompt x --device cuda --threads 2
if "$train" generate run --prompt x > /dev/full 2> err; then fail "a full disk is no error"; fi
grep -q 'cannot write to standard output: No space left' err || fail "a full disk gave: $(cat err)"

refused 'muster-model exists' export run
refused 'must end with .bin' export run --format llm.c --output model
refused 'holds no weights' export . --output other
refused 'cannot open nowhere: No such file or directory' evaluate nowhere --data text
refused 'cannot read nowhere' evaluate run --data nowhere
refused '--init-from muster-model decides the model' --init-from muster-model --layers 2 --data text
refused 'unknown option --formats; did you mean --format?' export run --formats x
refused '--data is required' evaluate run
refused 'pass --device=cpu' evaluate run --data text --device cuda  # heads of 8, or a build without kernels
refused '--image-size has no effect with a GPT' evaluate run --data text --image-size 32
refused '--label-column has no effect with a GPT' evaluate run --data text --label-column x
refused '--on-bad-image has no effect with a GPT' evaluate run --data text --on-bad-image skip
refused '--threads has no effect with --device=cuda' evaluate run --data text --device cuda --threads 2
"$train" evaluate run --data text --threads 1 | grep -q '^on cpu (.*1 thread) in fp32$' || fail "evaluate does not name the CPU"
head -c 2000 muster-model.bin > cut.bin
refused 'do not fit the sizes in its header' --init-from cut.bin --data text

# Shards of a tokenizer: the checkpoint keeps it, and text comes out again.
"$train" tokenize --tokenizer "$tokenizer" text text --output shards > log
grep -q '2 documents in 1 shard' log || fail "tokenize printed: $(cat log)"
"$train" tokenize --tokenizer "$tokenizer" --split val text --output shards --shard-tokens 500 --threads 2 > log
[ -e shards/tokenizer.json ] || fail 'no tokenizer beside the shards'
[ -e shards/tokens_val_000002.bin ] || fail "one shard of 500 tokens holds all"
vocabulary=$(sed -n 's/.*--vocabulary \([0-9]*\)$/\1/p' log)
run_training --data shards --vocabulary "$vocabulary" --layers 1 --heads 2 --width 32 --context 20 --steps 60 --output words > log
cmp words/checkpoints/step-00000060/tokenizer.json "$tokenizer" || fail "the checkpoint has another tokenizer"
generated words --prompt 'line 7 of a' --temperature 0 > continued
grep -q '^line 7 of a' continued || fail "tokens do not become text: $(cat continued)"
"$train" export words --output words-model > log
cmp words-model/tokenizer.json "$tokenizer" || fail "the exported tokenizer is another"
[ "$(generated words-model --prompt 'line 7 of a' --temperature 0)" = "$(cat continued)" ] || fail "the exported words are others"
"$train" evaluate words-model --data 'shards/tokens_val_*.bin' | grep -q 'nats/token over' || fail "the shards cannot be evaluated"

refused 'is text, whose tokens are bytes' --init-from words-model --data text --output other-words
refused 'is text, whose tokens are bytes' evaluate words --data text
refused 'was trained on bytes' evaluate run --data shards/tokens_train_000000.bin
# Without its tokenizer, a vocabulary above 256 is not one of bytes.
cp -r words-model unknown && rm unknown/tokenizer.json
refused "does not say how text becomes its $vocabulary tokens" --init-from unknown --data text --output from-unknown
refused "does not say how text becomes its $vocabulary tokens" evaluate unknown --data text
"$train" evaluate unknown --data 'shards/tokens_val_*.bin' | grep -q 'nats/token over' || fail "shards need a known tokenizer"
refused 'tokens_train_000000.bin exists' tokenize --tokenizer "$tokenizer" text --output shards
mkdir half && : > half/tokens_train_000003.bin.partial
refused 'half/tokens_train_000003.bin.partial exists: remove half/tokens_train_* or' tokenize --tokenizer "$tokenizer" text --output half
refused 'shards for validation (_val_) in --data shards: leave it out' --data shards --vocabulary "$vocabulary" --validation-fraction 0.2
mkdir one-more && echo '{}' > one-more/tokenizer.json
refused 'is another tokenizer' tokenize --tokenizer muster-model/tokenizer.json text --output one-more
refused 'has no such added token' tokenize --tokenizer "$tokenizer" --document-token '<|x|>' text --output new-shards
refused '--tokenizer text cannot be used: it is not valid JSON' tokenize --tokenizer text text --output new-shards
refused '--tokenizer nowhere cannot be read' tokenize --tokenizer nowhere text --output new-shards
printf 'good\377' > broken
refused 'broken: byte 4 is not UTF-8' tokenize --tokenizer "$tokenizer" text broken --output broken-shards --shard-tokens 500
[ "$(ls broken-shards)" = tokenizer.json ] || fail "a run that failed left $(ls broken-shards)"

# A vocabulary that needs four bytes a token, as Llama 3's.
awk '{ at = index($0, "\"56\":339") + 7; printf "%s", substr($0, 1, at)
  for (i = 340; i < 70001; ++i) printf ",\"far%d\":%d", i, i
  print substr($0, at + 1) }' "$tokenizer" > wide.json
"$train" tokenize --tokenizer wide.json text --output wide > log
grep -q -- '--vocabulary 70001$' log || fail "tokenize printed: $(cat log)"
[ "$(od -An -td4 -N8 wide/tokens_train_000000.bin | tr -s ' ')" = ' 20240801 7' ] || fail "no shard of four bytes a token"
run_training --data wide --model llama --vocabulary 70001 --layers 1 --heads 1 --width 8 --mlp-width 8 --context 16 --steps 2 --warmup 0 --output large > log
"$train" export large --output large-model > log
loss_of() { "$train" evaluate "$@" --data wide --validation-fraction 0.05 --threads 1 | sed -n 's/^loss \([0-9.]*\) .*/\1/p'; }
[ "$(loss_of large-model)" = "$(loss_of large)" ] || fail "the exported large vocabulary has another loss"
[ "$(loss_of large --context 8)" != "$(loss_of large)" ] || fail "evaluate --context changes nothing"
"$train" generate large-model --prompt 'line 7' --tokens 3 > log 2>&1 || fail "generate with a large vocabulary: $(cat log)"
run_training --data wide --init-from large-model --context 8 --steps 1 --output shorter > log
grep -q 'context 8, vocabulary 70001' log || fail "--init-from of a Llama with a shorter --context: $(cat log)"
refused '--context can shorten and not extend' --init-from large-model --context 17 --data wide
refused '--context can not change' --init-from muster-model --context 10 --data text
refused 'the model reads at most 16 tokens at once' evaluate large --data wide --context 17
refused 'the model has learned to read 20 tokens at once' evaluate run --data text --context 10

# Networks on images: the weights under PyTorch's names, and the loss of the run.
"$train" make-data cifar --train 200 --held-out 50 --output shapes > log
run_training --model resnet20 --data shapes --batch 10 --steps 3 --warmup 1 --optimizer sgd --output images > log
loss=$(sed -n 's/.*"validation_loss": \([0-9.]\{6\}\).*/\1/p' images/summary.json | head -n 1)
on_ranks 2 evaluate images --data shapes --threads 1 > log
grep -q "^loss $loss" log || fail "the network's loss is not $loss: $(cat log)"
run_training --model resnet20 --data shapes --image-size 16 --batch 10 --steps 1 --warmup 0 --output small-images > log
small=$(sed -n 's/.*"validation_loss": \([0-9.]\{6\}\).*/\1/p' small-images/summary.json | head -n 1)
"$train" evaluate small-images --data shapes > log
grep -q "^loss $small" log || fail "images of 16 pixels have a loss of $small: $(cat log)"
refused '--context has no effect with a network on images' evaluate images --data shapes --context 5
refused "--validation-fraction 0.2 has no effect with CIFAR's files" evaluate images --data shapes --validation-fraction 0.2
"$train" make-data cifar --classes 100 --train 200 --held-out 50 --output hundred > log
refused '--data hundred has 100 classes, and the model of images has 10' evaluate images --data hundred
"$train" export images --format safetensors --output images.safetensors > log
grep -q ': resnet20 classes=10, 269722 parameters' log || fail "export printed: $(cat log)"
for name in conv1.weight layer3.2.bn2.running_var layer3.2.bn2.num_batches_tracked; do
  grep -qa "\"$name\"" images.safetensors || fail "images.safetensors has no $name"
done
refused 'holds a network on images: pass --format=safetensors' export images --output images-model
