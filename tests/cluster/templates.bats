#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The templates of sbatch/ on a real two-node Slurm with two GPUs per node, scaled to that. train: train.bats;
# array-chain and scaling-study: templates/chain_and_scaling.bats; tensorflow, jax and horovod:
# frameworks/pypi.bats; preemptible: preempt.bats. Apptainer and pyxis are not in Debian: the tests use fakes.
load setup
load templates/submit

setup_file() {
  small_runs
  lab_up --nodes 2 --gpus 2 --no-isolate --plugin "$(plugin)"
}
teardown_file() { lab_down; }

@test "single-node: two ranks on one node" {
  run_template single-node
  trained "$folder/muster-run" 2 1
}

@test "multi-node: four ranks on two nodes, placed, with a report that shows it" {
  run_template multi-node
  trained "$folder/muster-run" 4 2
  [ "$(grep -o 'class="host"' "$folder/muster-run/report.html" | wc -l)" = 2 ]
  grep -q 'placed by Muster' "$folder/muster-run/report.html"
  grep -q 'GPU 0000:' "$folder/muster-run/report.html"
  for part in '>Loss<' '>Throughput<' '>Exposed communication<' '<h2>Machine<' '>measured peak<' '4 ranks on 2 hosts, over'; do
    grep -q "$part" "$folder/muster-run/report.html" || { echo "not in report.html: $part"; return 1; }
  done
}

@test "parameter-server: two servers and two workers on two nodes" {
  MUSTER_SERVERS=2 run_template parameter-server
  trained "$folder/muster-run" 4 2
  grep -q '^parameter-server: 2 servers, 2 workers, staleness 0$' "$folder/job.log"
}

# Bytes that a node has sent to others so far.
sent_by() { lab node "$1" awk '$1 == "eth0:" { print $10 }' /proc/net/dev; }

@test "pipeline: each of two has its stages on one node, and no activations leave it" {
  local distribution before sent
  # Ranks of both nodes are on the same cores, and their messages are large: none may wait by spinning.
  export OMPI_MCA_mpi_yield_when_idle=1
  export MUSTER_BUCKET_BYTES=65536  # no measurement of the link, which sends megabytes
  for distribution in block cyclic; do
    before=$(sent_by n0)
    # A step has 2 MiB of activations between two stages, as many gradients of them, and 74 KiB of gradients of parameters.
    MUSTER_STAGES=2 run_template pipeline --distribution=$distribution -- --layers=2 --width=16 --context=512 --batch=64 --steps=5 --eval-every=0 \
      --data "$REPOSITORY/LICENSE" --output "$BATS_TEST_TMPDIR/$distribution"
    sent=$(($(sent_by n0) - before))
    echo "$distribution: $sent bytes"
    trained "$BATS_TEST_TMPDIR/$distribution" 4 2
    ((sent < 5 * 1024 * 1024))
  done
  [ "$(grep -cE '^ +[01] +.* MiB  n\[0-1\]$' "$folder/job.log")" = 4 ]  # the two stages of both jobs, each on two nodes
}

@test "local-sgd: four workers on two nodes" {
  MUSTER_SYNC_EVERY=3 run_template local-sgd
  trained "$folder/muster-run" 4 2
  grep -q '2 averages' "$folder/job.log"
}

@test "central-storage: two nodes have a copy each, which their ranks share" {
  run_template central-storage
  trained "$folder/muster-run" 4 2
  grep -q 'shared parameters .*, shared moments ' "$folder/job.log"
}

@test "elastic: a rank is killed, and a spare ends the run with the others" {
  submit elastic --nodes=2 -- --data "$REPOSITORY/LICENSE" --steps 400 --checkpoint-every 2 --eval-every 0
  wait_until "compgen -G '$folder/muster-run/checkpoints/step-*/state.json' >/dev/null"
  lab exec scontrol show job "$job" | grep -qE 'TresPerTask=.*gpu[:=]1'
  # shellcheck disable=SC2016  # expanded on the node
  lab node n0 bash -c 'kill -KILL "$(pgrep -f -- "^[^ ]*muster-train " | head -n 1)"'
  finished
  lab exec scontrol show job "$job" | grep -q JobState=COMPLETED
  trained "$folder/muster-run" 2 1
  [ "$(grep -c '^warning: rank . (host n0, GPU [0-9a-f:.]*), pid [0-9]*, .* 2 ranks go on, .*; joined by the spare rank 2 (host n1)$' "$folder/job.log")" = 1 ]
  grep -q 'parameters identical on 2 ranks' "$folder/job.log"
}

@test "elastic: a node that lost its ranks gets new ones, which join the run" {
  MUSTER_SPARE_NODES=0 submit elastic --nodes=2 -- --data "$REPOSITORY/LICENSE" --steps 1000000 --checkpoint-every 2 --eval-every 0 --log-every 0
  wait_until "compgen -G '$folder/muster-run/checkpoints/step-*/state.json' >/dev/null"
  # shellcheck disable=SC2016  # expanded on the node
  lab node n1 bash -c 'kill -KILL $(pgrep -f -- "^[^ ]*muster-train ")'
  wait_until "grep -q '^rank [23] (host n1).* joined, after step .*; 4 ranks go on, ' '$folder/job.log'" || { cat "$folder/job.log"; return 1; }
  # They take part: steps follow.
  wait_until "sed '1,/ joined, after step .*; 4 ranks go on/d' '$folder/job.log' | grep -q '^step '" || { cat "$folder/job.log"; return 1; }
  lab exec scancel "$job"
  finished
}

@test "elastic: with too few ranks left the job saves and goes back into the queue" {
  MUSTER_SPARE_NODES=0 MUSTER_ELASTIC=4 submit elastic --nodes=2 -- --data "$REPOSITORY/LICENSE" --steps 400 --checkpoint-every 2 --eval-every 0
  wait_until "compgen -G '$folder/muster-run/checkpoints/step-*/state.json' >/dev/null"
  # shellcheck disable=SC2016  # expanded on the node
  lab node n1 bash -c 'kill -KILL "$(pgrep -f -- "^[^ ]*muster-train " | head -n 1)"'
  wait_until "grep -q 'goes back into the queue' '$folder/job.log'" || { cat "$folder/job.log"; return 1; }
  grep -q '^stopped with 3 ranks of at least 4 after step [0-9]*: start it again to go on$' "$folder/job.log"
  lab exec scancel "$job"
  finished
}

@test "sbatch accepts every layout in multi-node's comments" {
  sed -n 's/^##SBATCH //p' "$REPOSITORY/sbatch/multi-node.sbatch" > "$BATS_TEST_TMPDIR/layouts"
  [ "$(wc -l < "$BATS_TEST_TMPDIR/layouts")" = 3 ]
  while read -r layout; do
    # shellcheck disable=SC2086  # several options
    run lab exec sbatch --test-only $layout "$REPOSITORY/sbatch/multi-node.sbatch"
    echo "$output"
    [[ "$output" != *nrecognized* && "$output" != *"nvalid option"* ]]
  done < "$BATS_TEST_TMPDIR/layouts"
}

@test "mpirun: Open MPI starts the ranks on both nodes of the job" {
  run_template mpirun --gpus-per-node=2 --
  trained "$folder/muster-run" 4 2
}

@test "pytorch-ddp: a plain script of torch.distributed" {
  PYTHON=/usr/bin/python3 run_template pytorch-ddp "$REPOSITORY/tests/cluster/frameworks/torch_all_reduce.py"
  for rank in 0 1 2 3; do grep -qE "^torch [^ ]+ rank $rank of 4 sum 6$" "$folder/job.log"; done
}

@test "a rendered preemptible job saves at the script's signal, and goes back into the queue" {
  cat > "$BATS_TEST_TMPDIR/job.toml" <<'JOB'
name = "rendered"
command = ["muster-train", "--device=cpu", "--resume=auto"]
arguments = "[options]"
nodes = 2
tasks_per_node = 2
gpus_per_task = 0
cpus_per_task = 1
time_minutes = 10
preemptible = true
JOB
  folder=$BATS_TEST_TMPDIR/job
  mkdir "$folder"
  "$MUSTER_BUILD/bin/muster" render "$BATS_TEST_TMPDIR/job.toml" --to slurm > "$BATS_TEST_TMPDIR/job.sbatch"
  job=$(lab exec sbatch --parsable --chdir="$folder" --output="$folder/job.log" "$BATS_TEST_TMPDIR/job.sbatch" \
    --data "$REPOSITORY/LICENSE" --steps 4000 --checkpoint-every 1000 --eval-every 0)
  wait_until "grep -q '^step ' '$folder/job.log'" || { cat "$folder/job.log"; return 1; }
  lab exec scancel --batch --signal=USR1 "$job"  # as --signal=B:USR1 does before the time limit
  wait_until "grep -q 'goes back into the queue' '$folder/job.log'" || { cat "$folder/job.log"; return 1; }
  cat "$folder/job.log"
  compgen -G "$folder/muster-run/checkpoints/step-*/state.json"
  wait_until '[[ $(lab exec squeue --noheader --format=%T --jobs="$job") == PENDING ]]'
  lab exec scancel "$job"
  finished
}

@test "apptainer: the command runs in the image on every rank (with a fake Apptainer: Debian has none)" {
  mkdir "$BATS_TEST_TMPDIR/bin"
  cat > "$BATS_TEST_TMPDIR/bin/apptainer" <<'STANDIN'
#!/bin/bash
# apptainer exec --nv --bind DIR --bind /run/munge --pwd DIR IMAGE COMMAND…
[ "$1 $2 $3" = "exec --nv --bind" ] && [ "$5 $6 $7" = "--bind /run/munge --pwd" ] && [ -d "$4" ] && [ -d "$8" ] || exit 9
echo "rank $RANK in $9"
exec "${@:10}"
STANDIN
  chmod +x "$BATS_TEST_TMPDIR/bin/apptainer"
  IMAGE=image.sif PATH=$BATS_TEST_TMPDIR/bin:$PATH run_template apptainer printenv MUSTER_GPUS
  [ "$(grep -c 'in image.sif$' "$folder/job.log")" = 4 ]
  [ "$(grep -c '^0000:' "$folder/job.log")" = 4 ]
}

@test "pyxis: the command runs placed in the container of srun's options (with a fake pyxis: spank_container.cpp)" {
  local plugstack=/run/muster-lab/$MUSTER_LAB/etc/plugstack.conf before
  before=$(<"$plugstack")
  printf '%s\n' "required $MUSTER_BUILD/lib/spank_container.so" "$before" >"$plugstack"
  # shellcheck disable=SC2016  # expanded in each task
  IMAGE='registry#image:1' run_template pyxis bash -c 'echo "rank $RANK of $WORLD_SIZE in $(</in-container) at $PWD on ${MUSTER_GPUS:?}"; : > "mounted$RANK"; [ -S /run/munge/munge.socket.2 ]'
  printf '%s\n' "$before" >"$plugstack"
  for rank in 0 1 2 3; do
    grep -qE "^rank $rank of 4 in registry#image:1 at $folder on 0000:" "$folder/job.log"
    [ -e "$folder/mounted$rank" ]
  done
}

@test "tensorflow, jax and horovod: one process per GPU with its framework's variables (with a fake Python; the real ones: frameworks/pypi.bats)" {
  cat > "$BATS_TEST_TMPDIR/python" <<'STANDIN'
#!/bin/bash
echo "$* on rank $SLURM_PROCID: ${MUSTER_GPUS:?} ${TF_CONFIG:+TF_CONFIG} ${JAX_COORDINATOR_ADDRESS:+JAX_COORDINATOR_ADDRESS} ${PMIX_RANK:+PMIX_RANK=$PMIX_RANK}"
STANDIN
  chmod +x "$BATS_TEST_TMPDIR/python"
  local names=(tensorflow jax)
  [ "$LAB_MPI" != pmix ] || names+=(horovod)
  for name in "${names[@]}"; do PYTHON=$BATS_TEST_TMPDIR/python run_template "$name" "$name.py" --epochs 3; done
  for rank in 0 1 2 3; do
    grep -qE "^-u tensorflow.py --epochs 3 on rank $rank: 0000:.* TF_CONFIG " "$folder/job.log"
    grep -qE "^-u jax.py --epochs 3 on rank $rank: 0000:.* JAX_COORDINATOR_ADDRESS " "$folder/job.log"
    [ "$LAB_MPI" != pmix ] || grep -qE "^-u horovod.py --epochs 3 on rank $rank: 0000:.* PMIX_RANK=$rank$" "$folder/job.log"
  done
}

@test "templates without a command to run print that they need one" {
  for name in pytorch-ddp tensorflow horovod jax; do
    run bash "$REPOSITORY/sbatch/$name.sbatch"
    [ "$status" = 64 ]
    [[ "$output" == *"sbatch $name.sbatch"* ]]
  done
  for name in pyxis apptainer; do
    run env -u IMAGE bash "$REPOSITORY/sbatch/$name.sbatch" true
    [ "$status" != 0 ]
    [[ "$output" == *"IMAGE="* ]]
  done
}
