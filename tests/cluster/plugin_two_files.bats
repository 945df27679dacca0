#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The plugin without its second file, with another build's, and with both replaced while a step runs.
load setup

setup_file() { lab_up --nodes 1 --gpus 2 --plugin "$(plugin)"; }
teardown_file() { lab_down; }

setup() {
  folder=$BATS_TEST_TMPDIR/plugin
  mkdir "$folder"
  cp "$(plugin)" "$folder"
  from "$folder"
}
# The node stays in service.
teardown() {
  run -0 on_lab sinfo --noheader --format=%T%E
  [[ "$output" != *drain* && "$output" != *down* ]]
}

# from FOLDER [ARGUMENT…]: the next steps load the plugin from FOLDER.
from() { echo "optional $1/spank_muster.so ${*:2}" >"/run/muster-lab/$MUSTER_LAB/etc/plugstack.conf"; }
# Two tasks whose GPUs Slurm cannot have hidden; and two with one GPU each.
# shellcheck disable=SC2016  # for the shell in the task
show='echo "task $SLURM_PROCID ${CUDA_VISIBLE_DEVICES-none} ${MUSTER_SET:+placed}"'
step() { on_lab srun -n2 --gres=gpu:2 "$@" bash -c "$show"; }
step_of_one_each() { on_lab srun -n2 --gpus-per-task=1 "$@" bash -c "$show"; }
# ran TEXT: prints how many lines of the last output end with TEXT.
ran() { grep -cE "^task [01] [0-9A-Za-z,-]+ $1\$" <<<"$output"; }

# refused TEXT: without --muster nothing is printed; in auto both sides print the reason, and the step runs;
# in strict srun does not start it.
refused() {
  run -0 step_of_one_each
  [ "$(ran '')" = 2 ]
  [[ "$output" != *uster* ]]
  run -0 step --muster=auto
  [ "$(ran '')" = 2 ]
  [ "$(grep -c "srun: error: muster: .*$1" <<<"$output")" = 1 ]
  [ "$(grep -c "^muster: n0: .*$1.*; Slurm's own binding stays" <<<"$output")" = 1 ]
  run step --muster=strict
  [ "$status" != 0 ]
  [ "$(ran '.*')" = 0 ]
  [ "$(grep -c "srun: error: muster: .*$1" <<<"$output")" = 1 ]
}

@test "without the second file" {
  refused "spank_muster_step.so: cannot open shared object file.*; install both files"
}

@test "with something else in its place" {
  cp "$MUSTER_BUILD/lib/spank_noop.so" "$folder/spank_muster_step.so"
  refused "spank_muster_step.so is not Muster's; install both files from one package"
}

@test "with the second file of another version" {
  version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$MUSTER_BUILD/CMakeCache.txt")
  other=${version//[0-9]/7}
  sed "s/${version//./\\.}/$other/g" "$MUSTER_BUILD/lib/spank_muster_step.so" >"$folder/spank_muster_step.so"
  refused "spank_muster_step.so is of Muster $other for Slurm .*, spank_muster.so of $version for .*; install both files"
}

@test "when the administrator enables it, auto runs and strict ends" {
  from "$folder" default=auto
  run -0 step_of_one_each
  [ "$(ran '')" = 2 ]
  [ "$(grep -c "^muster: n0: .*; Slurm's own binding stays" <<<"$output")" = 1 ]
  run -0 step --muster=off
  [ "$(ran '')" = 2 ]
  [[ "$output" != *"muster: n0"* ]]
  # srun runs without an optional plugin.
  from "$folder" default=strict
  run step_of_one_each
  [ "$status" = 78 ]
  [ "$(ran '.*')" = 0 ]
  [ "$(grep -c "^muster: n0: .*; the step ends, as --muster=strict asks" <<<"$output")" = 1 ]
}

@test "without the second file, a step that nobody wants placed runs as it would without the plugin" {
  from "$folder" default=strict
  run -0 on_lab srun -n2 bash -c "$show"
  [ "$(ran '')" = 2 ]
  [[ "$output" != *"muster: n0"* ]]
  # As in a placed step.
  run -0 step --muster=off --export=ALL,MUSTER_SET=RANK
  [ "$(ran placed)" = 2 ]
  [[ "$output" != *"muster: n0"* ]]
  from "$folder" default=off,memory=off
  run -0 step
  [ "$(ran '')" = 2 ]
  [[ "$output" != *uster* ]]
}

@test "when the second file is missing only on the node, a task whose GPUs srun left to Muster ends, and others run" {
  # Each machine has its own /tmp.
  local folder=/tmp/two-files
  on_lab mkdir "$folder"
  on_lab cp "$(plugin)" "$MUSTER_BUILD/lib/spank_muster_step.so" "$folder"
  on_node n0 mkdir "$folder"
  on_node n0 cp "$(plugin)" "$folder"
  from "$folder"
  run -0 step --muster=auto
  [ "$(ran '')" = 2 ]
  [[ "$output" == *"muster: n0: $folder/spank_muster_step.so: "*"; Slurm's own binding stays"* ]]
  run step_of_one_each --muster=auto
  if [[ $(on_lab srun --version) =~ " 22."|" 23.02" ]]; then # later versions assign GPUs to tasks themselves
    [ "$status" = 78 ]
    [ "$(ran '.*')" = 0 ]
    [[ "$output" == *"the task cannot be given GPUs of its own ($folder/spank_muster_step.so: "*"use srun --muster=off"* ]]
  else
    [ "$status" = 0 ]
    [ "$(ran '')" = 2 ]
  fi
  run step --muster=strict
  [ "$status" = 78 ]
  [[ "$output" == *"the step ends, as --muster=strict asks"* ]]
}

@test "both files replaced while a step runs, and found through a link" {
  cp "$MUSTER_BUILD/lib/spank_muster_step.so" "$folder"
  mkdir "$BATS_TEST_TMPDIR/links"
  ln -s "$folder/spank_muster.so" "$BATS_TEST_TMPDIR/links"
  from "$BATS_TEST_TMPDIR/links"
  on_lab srun -n2 --gpus-per-task=1 --muster=strict bash -c \
    "touch $BATS_TEST_TMPDIR/runs.\$SLURM_PROCID; until [ -e $BATS_TEST_TMPDIR/go ]; do sleep 0.05; done; $show" >"$BATS_TEST_TMPDIR/output" 2>&1 &
  wait_until '[[ -e $BATS_TEST_TMPDIR/runs.0 && -e $BATS_TEST_TMPDIR/runs.1 ]]'
  mv "$folder" "$folder.old"
  mkdir "$folder"
  echo "no plugin" | tee "$folder/spank_muster.so" >"$folder/spank_muster_step.so"
  touch "$BATS_TEST_TMPDIR/go"
  wait $!
  # srun may print that it waits for the previous step.
  output=$(grep -v '^srun: job' "$BATS_TEST_TMPDIR/output")
  [ "$(ran placed)" = 2 ]
  [ "$(wc -l <<<"$output")" = 2 ]
}

@test "a plugin for another Slurm release is refused by Slurm itself, and no step runs if it is required" {
  # Slurm's number for the release 21.11.0.
  local at
  at=$((16#$(nm -D "$folder/spank_muster.so" | awk '$3 == "plugin_version" { print $1 }')))
  printf '\0\013\025\0' | dd of="$folder/spank_muster.so" bs=1 seek="$at" conv=notrunc status=none
  run -0 step
  [ "$(ran '')" = 2 ]
  [[ "$output" == *"Incompatible Slurm plugin $folder/spank_muster.so version (21.11.0)"* ]]
  run ! step --muster
  [[ "$output" == *"unrecognized option '--muster'"* ]]
  echo "required $folder/spank_muster.so" >"/run/muster-lab/$MUSTER_LAB/etc/plugstack.conf"
  run ! step
  [ "$(ran '.*')" = 0 ]
  [[ "$output" == *"Incompatible Slurm plugin $folder/spank_muster.so version (21.11.0)"* ]]
}
