# SPDX-License-Identifier: Apache-2.0
# For the tests of sbatch/: submits templates with the sizes of a lab of two nodes with two GPUs each.

# small_runs: runs of muster-train are small, told by the environment.
small_runs() {
  export PATH=$MUSTER_BUILD/bin:$PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export MUSTER_TRAIN_LAYERS=1 MUSTER_TRAIN_HEADS=2 MUSTER_TRAIN_WIDTH=32 MUSTER_TRAIN_CONTEXT=32 MUSTER_TRAIN_BATCH=8 MUSTER_TRAIN_STEPS=6
}
# submit NAME [SBATCH-OPTIONS… --] [ARGUMENTS…]: starts the template in a folder of its own, where its log is job.log; $job is its id.
submit() {
  local template=$REPOSITORY/sbatch/$1.sbatch options=()
  shift
  if [[ " $* " == *" -- "* ]]; then
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
  fi
  folder=$BATS_TEST_TMPDIR/job
  mkdir -p "$folder"
  job=$(lab exec sbatch --parsable --chdir="$folder" --output="$folder/job.log" --ntasks-per-node=2 --cpus-per-task=1 "${options[@]}" "$template" "$@")
}
# finished: waits until nothing of the job is left, and shows its log. (sbatch --wait looks every ten seconds only.)
finished() {
  wait_until '[ -z "$(lab exec squeue --noheader --jobs="$job" 2>/dev/null)" ]'
  cat "$folder/job.log"
}
# run_template …: submits and waits; it must have succeeded.
run_template() {
  submit "$@"
  finished
  lab exec scontrol show job "$job" | grep -q JobState=COMPLETED
}
# trained FOLDER RANKS HOSTS: a run of so many ended there.
trained() { [ "$(told ended "$1")" = finished ] && [ "$(told world_size "$1")" = "$2" ] && [ "$(told hosts "$1")" = "$3" ]; }
# told KEY FOLDER: of summary.json.
told() { /usr/bin/python3 -c 'import json, sys; print(json.load(open(sys.argv[2]))[sys.argv[1]])' "$1" "$2/summary.json"; }
