#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# parameter_server_on_ranks.sh ON_RANKS MUSTER_TRAIN [DEVICE]: runs of --strategy=parameter-server on several ranks. A lost worker is
# named in one line, and the others end with the bits of a run that lost nobody; on DEVICE cuda (default cpu) nothing else is tested.
# A signal to one rank ends all of them after the same step. A lost server ends the job with one line, and the run goes on from the
# newest checkpoint, by another strategy, too.
set -eu
on_ranks=$1 train=$2 device=${3:-cpu}
# shellcheck source=tests/unit/trainer/scenarios/text_and_failures.sh
. "$(dirname "$0")/text_and_failures.sh"
write_text 200

as_own_host=$(dirname "$on_ranks")/as_own_host
size="--heads 2 --width 16 --context 12 --batch 8 --threads 1" chunk=2 every=20 steps=300
# The fake GPU is slow.
if [ "$device" = cuda ]; then size="--heads 1 --width 64 --context 8 --batch 4" chunk=1 every=2 steps=8; fi

run() {  # run RANKS OPTIONS…
  ranks=$1
  shift
  # shellcheck disable=SC2086 # several options
  FAKE_NCCL_FOLDER=$(mktemp -d -p "$folder") ON_RANKS_TIMEOUT=600 "$on_ranks" "$ranks" "$as_own_host" "$train" --data "$folder/text" \
    --layers 1 $size --warmup 2 --schedule constant --device "$device" --no-mfu --no-tensorboard --eval-every 0 --keep 100 "$@"
}
served="--strategy parameter-server --checkpoint-every $every"

# find_rank N: whether rank N of the run that began last has a process; its id is $found.
find_rank() {
  for found in $(pgrep -f "^$train .*--output $folder/$begun\$"); do
    if tr '\0' '\n' < "/proc/$found/environ" | grep -qx "RANK=$1"; then return; fi
  done
  return 1
}
checkpoint_of() { echo "$folder/$begun/checkpoints/step-$(printf %08d "$1")"; }
# start RANK NAME RANKS OPTIONS…: in the background; returns when it has a checkpoint. RANK's process id is in $found. It is looked for
# before, because a short run would end meanwhile.
start() {
  wanted=$1
  shift
  begin "$@"
  await find_rank "$wanted"
  await test -d "$(checkpoint_of "$every")"
}

# A lost worker. A signal that comes after the steps shows nothing: with three times the steps it comes again, up to three times in all.
for attempt in 1 2 3; do
  alone=$folder/alone$attempt
  if [ "$device" = cpu ]; then
    run 1 --steps $steps --deterministic --chunk $chunk --checkpoint-every 0 --output "$alone" > "$folder/alone.log"
  else
    # shellcheck disable=SC2086 # several options
    run 2 $served --servers 1 --steps $steps --deterministic --chunk $chunk --output "$alone" > "$folder/alone.log" || {
      code=$?
      cat "$folder/alone.log" >&2
      exit $code
    }
  fi
  # shellcheck disable=SC2086 # several options
  start 2 "worker$attempt" 4 $served --servers 1 --steps $steps --deterministic --chunk $chunk
  near_end=$(checkpoint_of $((steps - every))) late=false
  kill -9 "$found" || late=true
  [ ! -d "$near_end" ] || late=true
  code=0
  wait "$started" || code=$?
  log=$folder/$begun.log
  if ! $late || grep -q 'the job goes on without rank 2' "$log"; then break; fi
  [ $attempt -eq 3 ] || steps=$((3 * steps))
done
[ "$code" -eq 137 ] || fail "ranks without one worker ended with $code: $(cat "$log")"
[ "$(grep -c 'rank 2 (host .*), pid [0-9]*, was killed by signal 9 (Killed), .*: the job goes on without rank 2' "$log")" -eq 1 ] ||
  fail "not one line about a lost worker: $(cat "$log")"
grep -q '"state":"finished"' "$folder/$begun/status.json" || fail "the others did not finish"
last=checkpoints/step-$(printf %08d $steps)/tensors.safetensors
cmp "$alone/$last" "$folder/$begun/$last" || fail "a run that lost a worker has other bits"
[ "$device" = cpu ] || exit 0

# Servers alone are refused.
code=0
run 2 --strategy parameter-server --servers 2 --steps 2 --output "$folder/refused" > "$folder/refused.log" 2>&1 || code=$?
[ $code -eq 64 ] || fail "two servers on two ranks ended with $code: $(cat "$folder/refused.log")"
echo 'muster-train: --servers 2 leaves no worker among 2 ranks: start more ranks, or fewer servers' | cmp - "$folder/refused.log" ||
  fail "not this one line: $(cat "$folder/refused.log")"

# A signal to one rank ends all ranks after the same step, although they have begun different ones.
for who in 0 3; do
  # shellcheck disable=SC2086 # several options
  start $who signal$who 4 $served --servers 1 --staleness unbounded --steps 100000
  kill -USR2 "$found"
  code=0
  wait $started || code=$?
  [ $code -eq 0 ] || fail "ranks of which rank $who got a signal ended with $code: $(cat "$folder/signal$who.log")"
  grep -q 'stopped by signal 12 after step' "$folder/signal$who.log" || fail "no line about a signal to rank $who"
  [ "$(grep 'parameters identical on' "$folder/signal$who.log" | tail -n 1 | grep -c 'on 4 ranks')" -eq 1 ] || fail "no checkpoint after a signal to rank $who"
done

# A lost server.
# shellcheck disable=SC2086
start 1 server 4 $served --servers 2 --staleness unbounded --steps 100000
kill -9 "$found"
code=0
wait $started || code=$?
[ $code -eq 75 ] || fail "ranks without one server ended with $code: $(cat "$folder/server.log")"
[ "$(grep -c '^muster.*: rank 1 (host .*), pid [0-9]*, was killed by signal 9 (Killed)' "$folder/server.log")" -eq 1 ] ||
  fail "not one line about a lost server: $(cat "$folder/server.log")"
newest=$(basename "$(find "$folder/server/checkpoints" -maxdepth 1 -name 'step-*' | sort | tail -n 1)")
steps=$((1${newest#step-} - 100000000 + 3))
run 2 --steps $steps --checkpoint-every 0 --output "$folder/server" > "$folder/after.log"
grep -q "resuming .*$newest" "$folder/after.log" || fail "the newest checkpoint is not good: $(cat "$folder/after.log")"
grep -q 'made with .*--strategy=parameter-server, now data-parallel' "$folder/after.log" || fail "no note about another strategy"
