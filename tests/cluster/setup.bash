# SPDX-License-Identifier: Apache-2.0
# For every cluster test: a lab named after the test file. In a .bats file:
#
#   load setup
#   setup_file() { lab_up --nodes 2 --gpus 2; }             # or: lab_up --nodes 2 --gpus 2 --plugin "$(plugin)"
#   teardown_file() { lab_down; }
#   @test "…" { run -0 on_lab srun -N2 hostname; }
#
# Put files for jobs in $BATS_FILE_TMPDIR or $BATS_TEST_TMPDIR, in the repository or in the build folder:
# every node has its own /tmp. srun may print to stderr that it waits for the previous job, so compare $output
# after run --separate-stderr.

bats_require_minimum_version 1.5.0

# A lab starts in three seconds; on a busy machine it may take longer.
export MUSTER_LAB_DEADLINE=${MUSTER_LAB_DEADLINE:-120}
# Debian builds PyTorch without libuv, which PyTorch 2.4 and later uses by default.
export USE_LIBUV=0

REPOSITORY=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
MUSTER_BUILD=$(cd "$REPOSITORY" && readlink -m -- "${MUSTER_BUILD:-build}")
LAB_COMMAND=$REPOSITORY/tests/lab/lab
# Before an mpirun whose ranks all leave.
MPIRUN_WITH_RETRY=$REPOSITORY/tests/unit/mpirun_with_retry
# Time limit of a command on the lab, in seconds.
LAB_DEADLINE=${LAB_DEADLINE:-900}
export REPOSITORY MUSTER_BUILD LAB_COMMAND MPIRUN_WITH_RETRY LAB_DEADLINE

# lab …: the lab command, for this file's lab after lab_up. In the foreground process group, so that Ctrl-C
# reaches it.
lab() { timeout --foreground --kill-after=5 "$LAB_DEADLINE" "$LAB_COMMAND" "$@"; }

# lab_up OPTIONS…: starts this file's lab. The lab ends with the bats process that runs the file, however that
# ends.
lab_up() {
  local name
  name=$(basename "$BATS_TEST_FILENAME" .bats | tr '[:upper:]' '[:lower:]' | tr -c '[:lower:][:digit:]\n' -)
  # The process id distinguishes two runs of the same file.
  export MUSTER_LAB=${name:0:20}.$$
  lab up --owner "$$" --share "$BATS_RUN_TMPDIR" "$@"
  # Debian testing's Slurm has no mpi/pmix.
  LAB_MPI=none
  if lab exec srun --mpi=list 2>&1 | grep -wq pmix; then LAB_MPI=pmix; fi
  export LAB_MPI
}

# For a test whose ranks need PMIx; others use --mpi="$LAB_MPI".
needs_pmix() { [[ $LAB_MPI == pmix ]] || skip "this Slurm has no mpi/pmix"; }

# allow_mpirun: lets mpirun run as root, with more ranks than slots or cores. From version 5 on Open MPI's
# ranks are started by PRRTE, which has its own settings.
allow_mpirun() {
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
  export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
}

# over_mpi OPTIONS… -- PROGRAM…: runs ranks in which Open MPI can start: by srun or, if Slurm has no PMIx, by
# mpirun in a job (call allow_mpirun first).
over_mpi() {
  local options=()
  while [[ $1 != -- ]]; do options+=("$1") && shift; done
  shift
  if [[ $LAB_MPI == pmix ]]; then
    on_lab srun --overcommit --mpi=pmix --kill-on-bad-exit=0 "${options[@]}" "$@"
  else
    on_lab salloc --quiet --overcommit "${options[@]}" mpirun "$@"
  fi
}

# lab_down: ends the lab; not an error if it never started.
lab_down() {
  [[ -z ${MUSTER_LAB:-} || ! -d /run/muster-lab/$MUSTER_LAB ]] || lab down
}

# on_lab CMD…: on the controller. on_node NODE CMD…: on a node.
on_lab() { lab exec "$@"; }
on_node() { lab node "$@"; }

# wait_until CONDITION: waits as long as a busy machine may take; prints a condition that is not met in time.
wait_until() {
  local limit=$((SECONDS + 600))
  until eval "$1"; do
    [ $SECONDS -lt $limit ] || { echo "not in 600 s: $1" >&2; return 1; }
    sleep 0.1
  done
}

# together COUNT: COUNT of the ranks of the next joining_ranks that may join for 2 s only begin at the same time.
together() {
  START_GATE=$1:$(mktemp -d "$BATS_TEST_TMPDIR/gate.XXXXXX")
  export START_GATE
}

# searched COMMAND…: runs a job whose line says which process a missing rank has. Up to three times, as long as a busy
# host has not answered in time.
searched() {
  local attempt
  for attempt in 1 2 3; do
    run "$@"
    grep -qE 'cannot be read now|nor did any other rank of that host|\(host unknown\) sent no hello|has no process on n0:' <<<"$output" || break
    echo "searched: attempt $attempt: $output" >&2
  done
}

# killed_by_9: prints an extended regular expression for the runtime's text about a rank that was killed with
# SIGKILL and was not its host's leader. Kernels before 6.15 may inform only the parent.
killed_by_9() {
  local text='was killed by signal 9 \(Killed\)'
  if [ "$(printf '%s\n' 6.15 "$(uname -r)" | sort --version-sort | head -n 1)" = 6.15 ]; then
    echo "$text"
  else
    echo "($text|ended without leaving the job)"
  fi
}

# plugin: prints the path of the built plugin, or fails with one line.
plugin() {
  local file=$MUSTER_BUILD/lib/spank_muster.so
  if [[ ! -f $file ]]; then
    echo "no plugin at $file: build it, or name the build folder in MUSTER_BUILD" >&2
    return 1
  fi
  printf '%s\n' "$file"
}

# in_job CMD…: runs it in an sbatch or salloc job around srun, like a job author: four tasks on two nodes, a
# GPU each.
in_job() { lab exec salloc --quiet -N2 --ntasks-per-node=2 --gpus-per-task=1 "$@"; }

# value NAME: prints the values in the output's lines "rank NAME=value", sorted by rank, on one line.
# shellcheck disable=SC2154 # run sets $output
value() { grep -E "^[0-9]+ $1=" <<<"$output" | sort -n | sed "s/^[0-9]* $1=//" | paste -sd' '; }
