# SPDX-License-Identifier: Apache-2.0
# For the tests of sbatch/: submits templates scaled to a lab of two nodes with two GPUs each.

# small_runs: makes runs of muster-train small, by environment variables.
small_runs() {
  export PATH=$MUSTER_BUILD/bin:$PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  # The lab's GPUs are device files without a driver.
  export MUSTER_TRAIN_DEVICE=cpu MUSTER_TRAIN_LAYERS=1 MUSTER_TRAIN_HEADS=2 MUSTER_TRAIN_WIDTH=32 MUSTER_TRAIN_CONTEXT=32 MUSTER_TRAIN_BATCH=8 MUSTER_TRAIN_STEPS=6
}
# submit NAME [SBATCH-OPTIONS… --] [ARGUMENTS…]: submits the template in its own folder, with its log in
# job.log; sets $job to its id.
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
# finished: waits until nothing of the job is left, and prints its log. (sbatch --wait polls only every ten
# seconds.)
finished() {
  local left
  wait_until 'left=$(lab exec squeue --noheader --jobs="$job" 2>/dev/null) && [ -z "$left" ]'
  cat "$folder/job.log"
}
# run_template …: submits it and waits; it must succeed.
run_template() {
  submit "$@"
  finished
  lab exec scontrol show job "$job" | grep -q JobState=COMPLETED
}
# trained FOLDER RANKS HOSTS: a run of so many ranks and hosts ended there.
trained() { [ "$(summary_value ended "$1")" = finished ] && [ "$(summary_value world_size "$1")" = "$2" ] && [ "$(summary_value hosts "$1")" = "$3" ]; }
# summary_value KEY FOLDER: prints the value in summary.json.
summary_value() { /usr/bin/python3 -c 'import json, sys; print(json.load(open(sys.argv[2]))[sys.argv[1]])' "$1" "$2/summary.json"; }
