# SPDX-License-Identifier: Apache-2.0
# For every cluster test: a lab named after the test file. In a .bats file:
#
#   load setup
#   setup_file() { lab_up --nodes 2 --gpus 2; }             # or: lab_up --nodes 2 --gpus 2 --plugin "$(plugin)"
#   teardown_file() { lab_down; }
#   @test "…" { run -0 on_lab srun -N2 hostname; }
#
# Files that jobs must see lie in $BATS_FILE_TMPDIR or $BATS_TEST_TMPDIR, in the repository or in the build folder; /tmp itself is another
# on every node. srun may say on standard error that it waits for the job before it: compare $output after run --separate-stderr.

bats_require_minimum_version 1.5.0

# A lab comes up in three seconds; on a busy machine it may take longer.
export MUSTER_LAB_DEADLINE=${MUSTER_LAB_DEADLINE:-120}
# Debian builds PyTorch without libuv, and from 2.4 on PyTorch uses it by default.
export USE_LIBUV=0

REPOSITORY=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
MUSTER_BUILD=$(cd "$REPOSITORY" && readlink -m -- "${MUSTER_BUILD:-build}")
LAB_COMMAND=$REPOSITORY/tests/lab/lab
# A command on the lab that takes longer has failed, in seconds.
LAB_DEADLINE=${LAB_DEADLINE:-240}
export REPOSITORY MUSTER_BUILD LAB_COMMAND LAB_DEADLINE

# lab …: the lab command, for this file's lab once lab_up was called. In the foreground group, so that Ctrl-C reaches it.
lab() { timeout --foreground --kill-after=5 "$LAB_DEADLINE" "$LAB_COMMAND" "$@"; }

# lab_up OPTIONS…: starts this file's lab. It ends with the bats process that runs the file, whatever happens to that.
lab_up() {
  local name
  name=$(basename "$BATS_TEST_FILENAME" .bats | tr '[:upper:]' '[:lower:]' | tr -c '[:lower:][:digit:]\n' -)
  # The process id keeps two runs of the same file apart.
  export MUSTER_LAB=${name:0:20}.$$
  lab up --owner "$$" --share "$BATS_RUN_TMPDIR" "$@"
  # Debian testing's Slurm has no mpi/pmix.
  LAB_MPI=none
  if lab exec srun --mpi=list 2>&1 | grep -wq pmix; then LAB_MPI=pmix; fi
  export LAB_MPI
}

# For a test whose ranks must find each other through PMIx; others take --mpi="$LAB_MPI".
needs_pmix() { [[ $LAB_MPI == pmix ]] || skip "this Slurm has no mpi/pmix"; }

# allow_mpirun: as root, with more ranks than slots or cores. Open MPI has PRRTE start its ranks from 5 on, with settings of its own.
allow_mpirun() {
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
  export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
}

# over_mpi OPTIONS… -- PROGRAM…: ranks in which Open MPI can start, by srun or, where Slurm has no PMIx, by mpirun in a job (allow_mpirun first).
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

# lab_down: takes it down; not an error when it never came up.
lab_down() {
  [[ -z ${MUSTER_LAB:-} || ! -d /run/muster-lab/$MUSTER_LAB ]] || lab down
}

# on_lab CMD…: on the controller. on_node NODE CMD…: on a node.
on_lab() { lab exec "$@"; }
on_node() { lab node "$@"; }

# wait_until CONDITION: for as long as a busy machine may take; a line says which condition never came.
wait_until() {
  local limit=$((SECONDS + 120))
  until eval "$1"; do
    [ $SECONDS -lt $limit ] || { echo "not in 120 s: $1" >&2; return 1; }
    sleep 0.1
  done
}

# killed_by_9: how the runtime's line tells of a rank that was killed with SIGKILL and was not its host's leader, as an extended regular expression.
# Kernels before 6.15 may tell only the parent.
killed_by_9() {
  local told='was killed by signal 9 \(Killed\)'
  if [ "$(printf '%s\n' 6.15 "$(uname -r)" | sort --version-sort | head -n 1)" = 6.15 ]; then
    echo "$told"
  else
    echo "($told|ended without leaving the job)"
  fi
}

# plugin: the path of the plugin that was built, or fails with one line.
plugin() {
  local file=$MUSTER_BUILD/lib/spank_muster.so
  if [[ ! -f $file ]]; then
    echo "no plugin at $file: build it, or name the build folder in MUSTER_BUILD" >&2
    return 1
  fi
  printf '%s\n' "$file"
}

# in_job CMD…: as a job author would, an sbatch or salloc job around srun: four tasks on two nodes, a GPU each.
in_job() { lab exec salloc --quiet -N2 --ntasks-per-node=2 --gpus-per-task=1 "$@"; }

# value NAME: the values of NAME over the output's lines "rank NAME=value", sorted by rank, on one line.
# shellcheck disable=SC2154 # run sets $output
value() { grep -E "^[0-9]+ $1=" <<<"$output" | sort -n | sed "s/^[0-9]* $1=//" | paste -sd' '; }
