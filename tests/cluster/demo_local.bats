#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# ./demo --local: from a build to a training run under mpirun, without root and without Slurm, and its
# messages if something is missing.
load setup

setup() {
  out=$BATS_TEST_TMPDIR/out
  mkdir "$out"
}

# as UID COMMAND…: runs it as that user, who may read everything, in case the repository is below a private
# folder.
as() {
  chown "$1" "$out"
  HOME=$out setpriv --reuid "$1" --clear-groups --inh-caps=-all,+dac_read_search --ambient-caps=-all,+dac_read_search "${@:2}"
}

# tools NAME…: makes a folder with these programs, the system tools that ./demo needs, and no others.
tools() {
  mkdir "$BATS_TEST_TMPDIR/tools"
  local name
  for name in bash dirname date id mkdir sed sort head "$@"; do ln -s "$(command -v "$name")" "$BATS_TEST_TMPDIR/tools/$name"; done
  echo "$BATS_TEST_TMPDIR/tools"
}

@test "an unprivileged user, and root as in a container, get a placement, two training ranks and the results" {
  local retrying=$BATS_TEST_TMPDIR/retrying
  mkdir "$retrying"
  printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$MPIRUN_WITH_RETRY" "$(command -v mpirun)" >"$retrying/mpirun"
  chmod +x "$retrying/mpirun"
  for user in 65534 0; do
    PATH=$retrying:$PATH run -0 as $user ./demo --local --build "$MUSTER_BUILD" --steps 4 --output "$out"
    # Two ranks of this machine's and eight of the other's.
    [ "$(grep -cE '^[0-7] +(-|[0-9a-f]{4,}:[0-9a-f]{2}:)' <<<"$output")" = 10 ]
    [[ "$output" == *"on 2 ranks on 1 host"* && "$output" == *"step 4/4"* ]]
    for file in report.html summary.json checkpoints/step-00000004/tensors.safetensors; do
      [[ "$output" == *" $out/$file"* ]]
      [ "$(stat -c %u "$out/$file")" = $user ]
    done
    rm -r "${out:?}"  # with the lock, which only its user opens
    mkdir "$out"
  done
}

@test "each missing tool has a line with the package that provides it" {
  PATH=$(tools) run -1 ./demo --local
  for name in c++ cmake ninja pkg-config mpirun; do
    [ "$(grep -cE "^demo: ${name//+/\\+} is missing\. Debian and Ubuntu: apt-get install [a-z+-]+.* dnf install [a-z+-]+" <<<"$output")" = 1 ]
  done
  [ "${#lines[@]}" = 6 ]
}

@test "an old cmake and another MPI are named" {
  folder=$(tools c++ ninja pkg-config)
  printf '#!/bin/sh\necho "cmake version 3.22.1"\n' >"$folder/cmake"
  printf '#!/bin/sh\necho "HYDRA build details:"\n' >"$folder/mpirun"
  chmod +x "$folder/cmake" "$folder/mpirun"
  PATH=$folder run -1 ./demo --local
  [[ "${lines[0]}" == "demo: cmake is 3.22.1, and 3.25 is needed"* ]]
  PATH=$folder run -1 ./demo --local --build "$MUSTER_BUILD"
  [ "$output" = "demo: $folder/mpirun is not that of Open MPI, which --local needs" ]
}

@test "a folder without a build, and a failed training, are named" {
  run -1 ./demo --local --build "$out"
  [ "$output" = "demo: --build needs a folder in which Muster is built; '$out/bin/muster-train' is missing" ]
  # An Open MPI mpirun that starts nothing.
  folder=$BATS_TEST_TMPDIR/fails
  mkdir "$folder"
  printf '#!/bin/sh\n[ "$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit; }\necho refused; exit 3\n' >"$folder/mpirun"
  chmod +x "$folder/mpirun"
  PATH=$folder:$PATH run -1 ./demo --local --build "$MUSTER_BUILD" --output "$out"
  [ "${lines[-2]}" = refused ]
  [ "${lines[-1]}" = "demo: the training failed, or took longer than 600 s" ]
}
