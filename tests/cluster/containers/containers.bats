#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Images of Muster (etc/containers), built of Debian's packages without a container engine, unpacked, and run: by a user without rights, by
# charliecloud, and by a stand-in for pyxis (spank_container.cpp). Run by ./check --containers; it needs the network.
# MUSTER_TEST_IMAGES names a folder with trainer.oci and slurmd.oci of build-image, which are tested in place of new ones.
load ../setup

setup_file() {
  export PACKAGES=$BATS_FILE_TMPDIR/packages TRAINER=$BATS_FILE_TMPDIR/trainer/rootfs SLURMD=$BATS_FILE_TMPDIR/slurmd/rootfs
  export IMAGES=${MUSTER_TEST_IMAGES:-$BATS_FILE_TMPDIR}
  if [ -z "${MUSTER_TEST_IMAGES:-}" ]; then
    make_packages > "$BATS_FILE_TMPDIR/packages.log" 2>&1 || { tail -n 30 "$BATS_FILE_TMPDIR/packages.log"; return 1; }
    for kind in trainer slurmd; do etc/containers/build-image "$kind" "$PACKAGES" "$IMAGES/$kind.oci"; done
  fi
  for kind in trainer slurmd; do
    umoci unpack --image "$IMAGES/$kind.oci:latest" "$BATS_FILE_TMPDIR/$kind"
    echo "# $kind: $(du -sm "$IMAGES/$kind.oci/" | cut -f1) MB, unpacked $(du -sm "$BATS_FILE_TMPDIR/$kind/rootfs" | cut -f1) MB" >&3
  done
  lab_up --nodes 2 --gpus 2 --plugin "$(plugin)"
}
teardown_file() { lab_down; }

# make_packages: by the script of the Containerfile's first stage, in a copy of the build folder, so that nothing is compiled again.
make_packages() {
  mkdir "$BATS_FILE_TMPDIR/own"
  # shellcheck disable=SC2016  # expanded by that shell
  unshare --mount bash -ec '
    mount -t tmpfs own "$2" && mkdir "$2/changes" "$2/work"
    mount -t overlay own -o "lowerdir=$1,upperdir=$2/changes,workdir=$2/work" "$1"
    MUSTER_BUILD=$1 etc/containers/build-packages "$3"' - "$MUSTER_BUILD" "$BATS_FILE_TMPDIR/own" "$PACKAGES"
}

# plugstack LINE…: sets the lines from the next step on.
plugstack() { printf '%s\n' "$@" > "/run/muster-lab/$MUSTER_LAB/etc/plugstack.conf"; }
setup() { plugstack "required $(plugin)"; }

# What a task has: Muster's own variables, its cores, and the GPUs' device files that it can open.
show='cat /etc/debian_version > /dev/null; echo "$SLURM_PROCID inside=$(muster-train --version 2>&1 | cut -d" " -f1)"
  for d in 0 1; do { : < /dev/nvidia$d; } 2>&1 | grep -q "No such device" && opens+=$d; done; echo "$SLURM_PROCID opens=$opens"
  echo "$SLURM_PROCID cpus=$(sed -n "s/^Cpus_allowed_list:\t//p" /proc/self/status)"
  for v in ${!MUSTER_@} ${!NCCL_@} CUDA_VISIBLE_DEVICES LOCAL_RANK RANK WORLD_SIZE; do echo "$SLURM_PROCID $v=${!v-unset}"; done'
# The same in all steps of a kind, but for what names the step.
alike() { grep -E '^[0-3] (MUSTER_|NCCL_|CUDA|LOCAL|RANK|WORLD|cpus|opens)' <<<"$output" | grep -vE 'STEP|PORT|KEY|TOKEN|JOB|_SUMS' | sort; }
outside() {
  run in_job --muster=strict srun bash -c "$show"
  [ "$status" = 0 ] || { echo "$output"; false; }
  alike > "$BATS_TEST_TMPDIR/outside"
  [ "$(value opens)" = "01 01 01 01" ]
  [ "$(value CUDA_VISIBLE_DEVICES)" = "0 1 0 1" ]
}

@test "each image has its packages, and no file of the build" {
  for package in libmuster muster-trainer libopenmpi3; do
    [ "$(chroot "$TRAINER" dpkg-query -W -f='${db:Status-Status}' "$package")" = installed ]
  done
  [ "$(chroot "$SLURMD" dpkg-query -W -f='${db:Status-Status}' muster-slurm-plugin)" = installed ]
  for root in "$TRAINER" "$SLURMD"; do
    [ ! -e "$root/opt/muster" ]
    [ -z "$(find "$root/var/lib/apt/lists" "$root/var/cache/apt" -type f ! -name lock)" ]
    # This machine's name and name servers are not in it, but the files are, on which a container's host mounts its own.
    for file in hosts hostname resolv.conf; do [ -f "$root/etc/$file" ] && [ ! -s "$root/etc/$file" ]; done
    ! grep -rqF "$BATS_FILE_TMPDIR" "$root/etc" "$root/usr/share/muster" "$root/opt"
  done
  [ ! -e "$TRAINER/usr/share/python-wheels" ]
}

@test "the library, the command, the trainer and the Python package run as any user, with a read-only root" {
  cat > "$BATS_TEST_TMPDIR/inside" <<'END'
set -e
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount -t tmpfs -o mode=1777 output "$1/mnt"
exec chroot --userspec=12345:12345 "$1" bash -ec '
  [ "$(id -u)" = 12345 ] && ! touch /tmp/file 2> /dev/null
  muster --version
  python3 -c "import muster; print(\"python\", muster.__version__)"
  muster-train --device cpu --layers 1 --heads 2 --width 32 --context 32 --batch 8 --steps 3 --output /mnt > /mnt/log 2>&1 || { cat /mnt/log; exit 1; }
  [ -s /mnt/checkpoints/step-00000003/tensors.safetensors ]'
END
  run unshare --mount bash "$BATS_TEST_TMPDIR/inside" "$TRAINER"
  echo "$output"
  [ "$status" = 0 ]
  [[ "${lines[0]}" == "muster "[0-9]* && "${lines[1]}" == "python "[0-9]* ]]
}

@test "in charliecloud's container a task has the variables, cores and device files that it has outside" {
  outside
  # shellcheck disable=SC2016  # the tasks expand it
  run in_job --muster=strict srun bash -c 'USER=root exec ch-run "$0" -- bash -c "$1"' "$TRAINER" "$show"
  [ "$status" = 0 ] || { echo "$output"; false; }
  [ "$(value inside)" = "muster-train muster-train muster-train muster-train" ]
  diff "$BATS_TEST_TMPDIR/outside" <(alike)
}

@test "in a container that pyxis makes of the image a task has the variables, cores and device files that it has outside" {
  outside
  plugstack "required $MUSTER_BUILD/lib/spank_container.so" "required $(plugin)"
  run in_job --muster=strict srun --container-image="$TRAINER" bash -c "$show"
  [ "$status" = 0 ] || { echo "$output"; false; }
  [ "$(value inside)" = "muster-train muster-train muster-train muster-train" ]
  diff "$BATS_TEST_TMPDIR/outside" <(alike)
}

# train MPI COMMAND…: three steps by a rank on each of two nodes; COMMAND ends with how to start the trainer. Then compares with outside.
train() {
  local mpi=$1 folder
  shift
  folder=$(mktemp -d "$BATS_TEST_TMPDIR/XXXX")
  cp /usr/share/common-licenses/GPL-3 "$folder/text"
  run -0 on_lab salloc --quiet -N2 --ntasks-per-node=1 --gpus-per-task=1 --muster srun --mpi="$mpi" --kill-on-bad-exit=1 "${@//FOLDER/$folder}" \
    --device cpu --data "$folder/text" --layers 1 --heads 2 --width 32 --context 32 --batch 8 --steps 3 --output "$folder"
  echo "$output"
  [[ "$output" != *ERROR* ]]
  grep -oE 'step 3/3  loss [0-9.]+|validation loss [0-9.]+|identical on 2 ranks \(hash [0-9a-f]+\)' <<<"$output" > "$BATS_TEST_TMPDIR/trained"
  [ "$(wc -l < "$BATS_TEST_TMPDIR/trained")" = 3 ]
  [ -s "$folder/checkpoints/step-00000003/tensors.safetensors" ]
  [ -e "$BATS_FILE_TMPDIR/trained" ] || cp "$BATS_TEST_TMPDIR/trained" "$BATS_FILE_TMPDIR/trained"
  diff "$BATS_FILE_TMPDIR/trained" "$BATS_TEST_TMPDIR/trained"
}
train_outside() {
  rm -f "$BATS_FILE_TMPDIR/trained"
  train "$LAB_MPI" "$MUSTER_BUILD/bin/muster-train"
}

@test "two nodes train in charliecloud's containers as outside, with PMIx and with MUNGE" {
  train_outside
  # /run: munged's socket, and here Slurm's spool folder with PMIx's files. /tmp is mounted by itself.
  for mpi in $(printf '%s\n' none "$LAB_MPI" | sort -u); do USER=root train "$mpi" ch-run --bind=/run "$TRAINER" -- muster-train; done
}

@test "two nodes train in pyxis's containers as outside, with PMIx and with MUNGE" {
  train_outside
  plugstack "required $MUSTER_BUILD/lib/spank_container.so" "required $(plugin)"
  for mpi in $(printf '%s\n' none "$LAB_MPI" | sort -u); do
    train "$mpi" --container-image="$TRAINER" --container-mounts=/run,FOLDER muster-train
  done
}

@test "Slinky's line by glob loads the plugin in the image, and stops nothing where the folder is missing" {
  mkdir "$BATS_TEST_TMPDIR/etc"
  sed '/^PlugStackConfig/d; s|/run/muster-lab/[^ ]*/etc/plugstack.conf|/tmp/none|' "/run/muster-lab/$MUSTER_LAB/etc/slurm.conf" > "$BATS_TEST_TMPDIR/etc/slurm.conf"
  echo 'include /usr/share/muster/plugstack.conf.d/*' > "$BATS_TEST_TMPDIR/etc/plugstack.conf"
  # As the operator's volume does, this hides what the image has there.
  run -0 unshare --mount bash -c 'mount --bind "$1" "$0/etc/slurm" && exec chroot "$0" srun --help' "$SLURMD" "$BATS_TEST_TMPDIR/etc"
  grep -qE '^ *--muster' <<<"$output"
  plugstack 'include /usr/share/muster/plugstack.conf.d/*'
  [ ! -e /usr/share/muster/plugstack.conf.d ] || skip "this machine has that folder"
  run -0 --separate-stderr on_lab srun -N2 -n2 echo ran
  [ "$output" = $'ran\nran' ]
}
