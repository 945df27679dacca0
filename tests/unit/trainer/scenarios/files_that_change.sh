#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# files_that_change.sh MPIRUN MUSTER_TRAIN: what a run says when its data become shorter, or its output folder is deleted, while it trains.
set -eu
mpirun=$1 train=$2
# shellcheck source=tests/unit/trainer/scenarios/text_and_failures.sh
. "$(dirname "$0")/text_and_failures.sh"
write_text 3000

run() {  # run RANKS OPTIONS…
  ranks=$1
  shift
  timeout 400 "$mpirun" --oversubscribe -n "$ranks" --bind-to none "$train" --data "$folder/text" --layers 1 --heads 2 --width 32 --context 24 --batch 7 \
    --steps 1000000 --eval-every 0 --threads 1 --device cpu --no-mfu --no-tensorboard "$@"
}
# ends_with CODE TEXT: the run ends with this exit code and one line that matches.
ends_with() {
  code=0
  wait $started || code=$?
  log=$folder/$begun.log
  [ $code -eq "$1" ] || fail "ended with $code, not $1: $(cat "$log")"
  [ "$(grep -c '^muster-train: ' "$log")" -eq 1 ] || fail "not exactly one line: $(cat "$log")"
  grep -q "^muster-train: $2" "$log" || fail "another line: $(cat "$log")"
}

cp "$folder/text" "$folder/whole"
for ranks in 1 3; do
  begin "shorter$ranks" $ranks
  await_training
  : > "$folder/text"
  ends_with 64 "cannot read $folder/text: it became shorter while the run went on, 0 bytes instead of"
  grep -q '"state":"failed"' "$folder/shorter$ranks/status.json" || fail "the status is $(cat "$folder/shorter$ranks/status.json")"
  cp "$folder/whole" "$folder/text"
done

begin deleted 1 --checkpoint-every 200 --keep 2
await grep -qs 'step-00000400 after step 400' "$folder/deleted.log"
# Renamed, because rm would delete a file first and the checkpoints later: between both, a checkpoint is still good.
mv "$folder/deleted" "$folder/elsewhere"
ends_with 71 "cannot .*$folder/deleted"
if grep -q 'is good' "$log"; then fail "a deleted checkpoint is called good: $(cat "$log")"; fi
