#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# little_address_space.sh MUSTER_TRAIN: under any limit of the address space (RLIMIT_AS) a run trains, or ends with one line.
set -eu
train=$1
# shellcheck source=tests/unit/trainer/scenarios/text_and_failures.sh
. "$(dirname "$0")/text_and_failures.sh"
write_text 100

# under KIB: a run with so much address space; its exit code is in $code.
under() {
  code=0
  (
    ulimit -v "$1"
    exec "$train" --data "$folder/text" --layers 1 --heads 2 --width 32 --context 12 --batch 4 --steps 1 --warmup 0 --eval-every 0 --threads 2 --device cpu \
      --no-mfu --no-tensorboard --resume off --output "$folder/run"
  ) > "$folder/log" 2> "$folder/errors" || code=$?
}

# The libraries are mapped, and allocate, before main().
least=50000
until (ulimit -v "$least" && "$train" --version) > /dev/null 2> "$folder/errors"; do
  least=$((least + 1000))
  [ $least -lt 1000000 ] || fail "main() is not reached with $least KiB: $(cat "$folder/errors")"
done
refused=0
for kib in $(seq $((least + 2000)) 4000 $((least + 120000))); do
  under "$kib"
  [ $code -ne 0 ] || continue
  refused=$((refused + 1))
  [ $code -eq 71 ] || fail "with $kib KiB it ended with $code: $(cat "$folder/errors")"
  [ "$(wc -l < "$folder/errors")" -eq 1 ] || fail "with $kib KiB it printed $(cat "$folder/errors")"
  grep -Eq '^muster-train: (the address space of a process is limited|cannot start a thread|out of memory)' "$folder/errors" ||
    fail "with $kib KiB it printed $(cat "$folder/errors")"
done
[ $refused -gt 5 ] || fail "only $refused limits were too small"
[ "$code" -eq 0 ] || fail "it does not train with $kib KiB: $(cat "$folder/errors")"
