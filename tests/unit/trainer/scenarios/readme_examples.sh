#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# readme_examples.sh MPIRUN MUSTER_TRAIN README: README.md's lines that train run as they are written, and its network on images is right as
# often as the text says. Settings in the environment make the text's run short.
set -eu
mpirun=$1 train=$2 readme=$3
# shellcheck source=tests/unit/trainer/scenarios/text_and_failures.sh
. "$(dirname "$0")/text_and_failures.sh"
mkdir "$folder/build"
ln -s "$(dirname "$train")" "$folder/build/bin"
write_text 600
PATH=$(dirname "$mpirun"):$PATH
export OMPI_MCA_rmaps_base_oversubscribe=1
cd "$folder"

# Lines of programs are indented by four; a backslash goes on in the next one.
awk '/^    / && (goes_on || /build\/bin\/muster-train/) { print substr($0, 5); goes_on = /\\$/ }' "$readme" > lines
[ "$(grep -c 'build/bin/muster-train' lines)" -eq 3 ] || fail "README.md has other lines that train: $(cat lines)"

grep '^mpirun ' lines | sed "s/FILE-OR-FOLDER/text/; s/ *#.*/ --output text-run/" > text.sh
MUSTER_TRAIN_STEPS=3 MUSTER_TRAIN_WARMUP=1 sh -eu text.sh > log 2>&1 || fail "$(cat text.sh) failed: $(cat log)"
grep -q '^step 3/3 ' log || fail "the text's run printed $(cat log)"

grep -v '^mpirun ' lines > images.sh
sh -eu images.sh > log 2>&1 || fail "$(cat images.sh) failed: $(cat log)"
percent=$(sed -n 's/.*([^#]*, \([0-9]*\)% right).*/\1/p' "$readme")
[ -n "$percent" ] || fail "README.md does not say how often the network is right"
right=$(sed -n 's/^validation loss .*, \([0-9.]*\)% right .*/\1/p' log | tail -n 1)
awk "BEGIN { exit !($right + 0.5 >= $percent) }" || fail "it is right in $right% and not $percent%: $(cat log)"
