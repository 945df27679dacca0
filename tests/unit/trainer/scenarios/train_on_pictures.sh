#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains networks on pictures: the same bits for any number of ranks and threads, also when damaged pictures are left out and after a
# resumption; lists; refusals. Usage: train_on_pictures.sh MPIRUN MUSTER_TRAIN
set -euo pipefail
mpirun=$1 train=$2
# shellcheck source=tests/unit/trainer/scenarios/text_and_failures.sh
. "$(dirname "$0")/text_and_failures.sh"
fail() { echo "train_on_pictures: $*" >&2; cat "$folder/log" >&2; exit 1; }

"$train" make-data pictures --output "$folder/pictures" --train 60 --held-out 31 --bad > "$folder/log"
[ "$(find "$folder/pictures/train" -name '*.jpg' -o -name '*.png' | wc -l)" = 64 ] || fail "make-data pictures wrote another number of files"
"$train" make-data pictures --output "$folder/again" --train 60 --held-out 31 --bad > "$folder/log"
diff -r "$folder/pictures" "$folder/again" || fail "the same options draw other pictures"

# run RANKS NAME MODEL OPTIONS…
run() {
  local ranks=$1 name=$2 model=$3
  shift 3
  timeout 400 "$mpirun" --oversubscribe -n "$ranks" --bind-to none "$train" --model "$model" --data "$folder/pictures" --image-size 32 --batch 14 \
    --steps 6 --warmup 2 --checkpoint-every 3 --keep 9 --threads 1 --device cpu --no-mfu --on-bad-image skip --output "$folder/$name" "$@" \
    > "$folder/log" 2>&1 || fail "$model on $ranks ranks ended with $?: $(tail -n 1 "$folder/log")"
}
right() { grep -o 'over [0-9]* images, .* right ([0-9]*)' "$folder/log" || fail "no line about right images"; }
last=checkpoints/step-00000006/tensors.safetensors
same() { cmp "$folder/$1/$last" "$folder/$2/$last" || fail "$2 has other bits than $1"; }

for model in mobilenet-v1 resnet20; do
  options=(--deterministic --chunk 4)
  [ $model = resnet20 ] || options+=(--width-multiplier 0.25)
  run 1 $model-1 $model "${options[@]}"
  right > "$folder/right-1"
  run 2 $model-2 $model "${options[@]}" --data-threads 3
  right > "$folder/right-2"
  same $model-1 $model-2
  cmp "$folder/right-1" "$folder/right-2" || fail "2 ranks count other right images"
  mkdir -p "$folder/$model-resumed/checkpoints"
  cp -r "$folder/$model-1/checkpoints/step-00000003" "$folder/$model-resumed/checkpoints/"
  run 2 $model-resumed $model "${options[@]}"
  grep -q 'resuming .*step-00000003' "$folder/log" || fail "$model did not go on from step 3"
  same $model-1 $model-resumed
done
# The largest network, which takes seconds a step.
run 2 resnet50 resnet50 --batch 2 --steps 1 --warmup 0 --checkpoint-every 0
grep -q "parameters identical on 2 ranks" "$folder/log" || fail "no line about resnet50's identical parameters on 2 ranks"
# Two epochs and a half: each damaged picture was met on one of the ranks, and is in the list once.
run 2 skipped mobilenet-v1 --width-multiplier 0.25 --steps 12
python3 - "$folder/skipped/summary.json" << 'END' || fail "the summary of a run that skipped pictures"
import json, sys
s = json.load(open(sys.argv[1]))
names = [line.split(": ")[0].rsplit("/", 1)[1] for line in s["left_out_images"]]
assert names == ["giant.jpg", "truncated-0.jpg", "truncated-1.jpg", "truncated-2.png"], names
assert 0 < s["loading_share"] < 1, s["loading_share"]
END
grep -q 'warning: 4 pictures cannot be used' "$folder/log" || fail "no line about the pictures that were left out"
grep -q 'truncated-2.png' "$folder/skipped/report.html" || fail "the report does not list the pictures that were left out"
run 1 other mobilenet-v1 --width-multiplier 0.25 --deterministic --chunk 4 --no-augment
! cmp -s "$folder/mobilenet-v1-1/$last" "$folder/other/$last" || fail "--no-augment changes nothing"

# A list of the same files with Stanford Online Products' columns.
(cd "$folder/pictures" && echo "image_id class_id super_class_id path" && find train -name '0*' | sort | awk '{ print NR, NR, (NR - 1) % 3 + 1, $1 }') > "$folder/list"
mv "$folder/list" "$folder/pictures/Ebay_train.txt"
run 1 list mobilenet-v1 --width-multiplier 0.25 --data "$folder/pictures/Ebay_train.txt" --label-column super_class_id --validation-fraction 0.2
grep -q ', 3 classes' "$folder/log" || fail "a list of three super-classes"
grep -q '48 images to train on, .*, 12 held out' "$folder/log" || fail "a fifth of a list held out"
timeout 60 "$train" evaluate --data "$folder/pictures/Ebay_train.txt" --label-column super_class_id "$folder/list" > "$folder/log" ||
  fail "evaluate on a list"
grep -q 'over 60 images' "$folder/log" || fail "evaluate takes the whole list"

# refused TEXT OPTIONS…: the run ends with exit code 64 and one line.
refused() {
  local text=$1 status=0
  shift
  timeout 60 "$train" --model mobilenet-v1 --image-size 32 --steps 2 --batch 8 --device cpu --no-mfu --output "$folder/refused" "$@" > "$folder/log" 2> "$folder/errors" || status=$?
  [ $status = 64 ] || fail "exit code $status instead of 64 for: $*"
  [ "$(wc -l < "$folder/errors")" = 1 ] || fail "more than one line for: $*"
  grep -qF -- "$text" "$folder/errors" || { cat "$folder/errors" >&2; fail "no '$text' for: $*"; }
}
refused "truncated" --data "$folder/pictures" --batch 64
refused "there are neither folders of classes" --data "$folder/mobilenet-v1-1/checkpoints/step-00000006"
refused "--label-column" --data "$folder/pictures" --label-column x
refused "there is no column label" --data "$folder/pictures/Ebay_train.txt"
refused "leave one of them out" --data "$folder/pictures" --validation-data "$folder/pictures" --validation-fraction 0.2
refused "has no effect with a folder for validation in --data" --data "$folder/pictures" --validation-fraction 0.2
refused "has no effect with small" --model small --on-bad-image skip
