#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# For scripts that run muster-train on several ranks: a folder that goes away with the script, a text to train on, fail(), and runs in the
# background that get a signal.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# The script's $mpirun becomes one that starts it through mpirun_with_retry.
if [ -n "${mpirun-}" ]; then
  printf '#!/bin/sh\nexec "%s/mpirun_with_retry" "%s" "$@"\n' "$(cd "$(dirname "$0")/../.." && pwd)" "$mpirun" > "$folder/mpirun"
  chmod +x "$folder/mpirun"
  mpirun=$folder/mpirun
fi

# write_text LINES
write_text() {
  i=0
  while [ $i -lt "$1" ]; do
    echo "line $i of a text that is long enough to learn something from"
    i=$((i + 1))
  done > "$folder/text"
}
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# begin NAME RANKS OPTIONS…: the script's run() in the background. Its process id is $started, and its output goes to $folder/NAME.log.
begin() {
  begun=$1
  shift
  run "$@" --output "$folder/$begun" > "$folder/$begun.log" 2>&1 &
  started=$!
}
# await COMMAND…: waits until it succeeds. If the run that began last ends before, or 300 s pass, this fails. The run itself may take longer.
await() {
  polls=0
  until "$@"; do
    if [ $polls -eq 3000 ] || ! kill -0 "$started" 2> /dev/null; then
      "$@" || fail "$begun: '$*' does not hold after $((polls / 10)) s: $(cat "$folder/$begun.log")"
      return
    fi
    sleep 0.1
    polls=$((polls + 1))
  done
}
await_training() { await grep -qs '"state":"running"' "$folder/$begun/status.json"; }
# signal_rank SIGNAL N: sends it to the Nth rank of the run that began last. The ranks' child processes have other command lines.
signal_rank() {
  rank_pid=$(pgrep -f "^[^ ]*muster-train .*--output $folder/$begun\$" | sed -n "$2p")
  [ -n "$rank_pid" ] || fail "$begun has ended before signal $1: $(cat "$folder/$begun.log")"
  kill "-$1" "$rank_pid"
}
# lose_rank N RANKS OPTIONS…: kills the Nth rank of such an endless run. The job fails with one line. Open MPI 4's mpirun ends all ranks as soon
# as one has been killed, and once in some hundred jobs that is before another rank's line has reached it. Such a job is begun again, up to three
# times in all.
lose_rank() {
  nth=$1
  shift
  for attempt in 1 2 3; do
    begin "lost$attempt" "$@"
    await_training
    signal_rank 9 "$nth"
    code=0
    wait "$started" || code=$?
    [ $code -ne 0 ] || fail "ranks without one of them ended with 0"
    if grep -q '^muster: ' "$folder/$begun.log"; then break; fi
  done
  [ "$(grep -c '^muster: rank [0-9] (host .*), pid [0-9]*, was killed by signal 9 (Killed), while running' "$folder/$begun.log")" -eq 1 ] ||
    fail "not exactly one line about a lost rank: $(cat "$folder/$begun.log")"
}
