#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The files that `cmake --install` installs, and a program built against them.
load setup

setup_file() {
  export build=$MUSTER_BUILD
  export root=$BATS_FILE_TMPDIR/root
  DESTDIR=$root cmake --install "$build" --prefix /usr > "$BATS_FILE_TMPDIR/install.log"
  lab_up --nodes 2 --gpus 2
}
teardown_file() { lab_down; }

# install_as UID PREFIX [DESTDIR]: runs cmake --install with every file system read-only except PREFIX, the
# files that CMake writes to the build folder, and the kernel's file systems. A mount of another test may
# meanwhile be gone. Another user may read everything, in case the build folder is below a private one.
install_as() {
  mkdir "$2" "$BATS_TEST_TMPDIR/own"
  chown "$1" "$2"
  # shellcheck disable=SC2016  # expanded by that shell
  unshare --mount bash -ec '
    mount -t tmpfs own "$4/own" && mkdir "$4/own/changes" "$4/own/work"
    mount -t overlay own -o "lowerdir=$3,upperdir=$4/own/changes,workdir=$4/own/work" "$3"
    chown "$1" "$3" && rm -f "$3/install_manifest.txt"
    mount --bind "$2" "$2"
    findmnt --noheadings --raw --output TARGET | while read -r folder; do
      case $folder in "$2" | "$3" | "$4/own" | /proc* | /sys* | /dev*) ;; *) mount -o remount,bind,ro "$folder" || ! mountpoint -q "$folder" ;; esac
    done
    cd /
    exec setpriv --reuid "$1" --clear-groups --inh-caps=-all,+dac_read_search --ambient-caps=-all,+dac_read_search \
      cmake --install "$3" --prefix "$2"' - "$1" "$2" "$build" "$BATS_TEST_TMPDIR"
}

@test "the plugin, its configuration, library, headers, programs, templates, man pages and documents are installed" {
  for file in bin/muster bin/muster-train include/muster/muster.hpp include/muster/version.hpp include/muster/muster.h share/muster/muster.f90 share/muster/sbatch/train.sbatch \
    share/man/man1/muster.1 share/man/man1/muster-train.1 share/man/man5/muster.conf.5 share/man/man7/muster.7 share/man/man8/spank_muster.8 \
    share/muster/profiles/aws-efa.conf share/muster/machines/dgx-h100.machine share/muster/sites/jean-zay-v100.toml etc/slurm/plugstack.conf.d/zz-muster.conf share/doc/muster/failures.md share/doc/muster/muster.spdx.json; do
    [ -s "$root/usr/$file" ] || { echo "missing: $file"; false; }
  done
  for file in slurm/spank_muster.so slurm/spank_muster_step.so libmuster.so muster.pc; do
    [ -n "$(find "$root/usr/lib" -path "*/$file")" ] || { echo "missing: $file"; false; }
  done
}

@test "any user can install below a prefix, and nothing is written outside it" {
  for user in 65534 0; do
    rm -rf "$BATS_TEST_TMPDIR/own"
    run -0 install_as $user "$BATS_TEST_TMPDIR/prefix-$user"
    [ -z "$(find "$BATS_TEST_TMPDIR/prefix-$user" ! -user $user)" ]
    [ "$(cd "$BATS_TEST_TMPDIR/prefix-$user" && find . -type f | sort)" = "$(cd "$root/usr" && find . -type f | sort)" ]
  done
}

@test "below a prefix the line for plugstack.conf has the plugin's full path, and Slurm loads it from there" {
  cmake --install "$build" --prefix "$BATS_TEST_TMPDIR/prefix" > /dev/null
  echo "include $BATS_TEST_TMPDIR/prefix/etc/slurm/plugstack.conf.d/*.conf" >"/run/muster-lab/$MUSTER_LAB/etc/plugstack.conf"
  run -0 --separate-stderr lab exec srun -N1 -n1 --gpus-per-task=1 --muster bash -c 'echo "gpu $MUSTER_GPUS"'
  [[ "$output" == "gpu 0000:"* ]]
  : >"/run/muster-lab/$MUSTER_LAB/etc/plugstack.conf"
  # DESTDIR is where the files are staged, not where they will be.
  plugin=$(cd "$root" && find usr -name spank_muster.so)
  grep -qx "optional /$plugin default=off" "$root/usr/etc/slurm/plugstack.conf.d/zz-muster.conf"
}

@test "an administrator's edited zz-muster.conf is kept" {
  echo '# edited' > "$root/usr/etc/slurm/plugstack.conf.d/zz-muster.conf"
  DESTDIR=$root cmake --install "$build" --prefix /usr > /dev/null
  [ "$(cat "$root/usr/etc/slurm/plugstack.conf.d/zz-muster.conf")" = '# edited' ]
}

@test "no installed text names the source or build folder" {
  run grep -rlIF -e "$PWD/" "$root/usr/include" "$root/usr/lib" "$root/usr/share"
  [ -z "$output" ]
}

@test "a ten-line program finds the package, builds, and sums over ranks: alone, under mpirun, and under srun on two nodes" {
  prefix=$BATS_FILE_TMPDIR/prefix
  DESTDIR=$prefix cmake --install "$build" --prefix /usr > /dev/null
  cmake -G Ninja -S tests/cluster/install -B "$BATS_FILE_TMPDIR/ten" -DCMAKE_PREFIX_PATH="$prefix/usr" > /dev/null
  cmake --build "$BATS_FILE_TMPDIR/ten" > /dev/null
  run timeout 300 "$BATS_FILE_TMPDIR/ten/ten_lines"
  [ "$output" = "rank 0 of 1: sum 1" ]
  run timeout 300 "$MPIRUN_WITH_RETRY" mpirun --allow-run-as-root --oversubscribe -n 2 "$BATS_FILE_TMPDIR/ten/ten_lines"
  [ "$status" = 0 ]
  [[ "$output" == *"rank 0 of 2: sum 3"* ]]
  [[ "$output" == *"rank 1 of 2: sum 3"* ]]
  run -0 --separate-stderr lab exec srun -N2 -n4 --overcommit --mpi="$LAB_MPI" "$BATS_FILE_TMPDIR/ten/ten_lines"
  [ "$(sort <<<"$output")" = "$(printf 'rank %s of 4: sum 10\n' 0 1 2 3)" ]
}

@test "the installed examples, in C++ and in C, train the same model, on any number of ranks" {
  [ -d "$BATS_FILE_TMPDIR/prefix" ] || DESTDIR=$BATS_FILE_TMPDIR/prefix cmake --install "$build" --prefix /usr > /dev/null
  prefix=$BATS_FILE_TMPDIR/prefix/usr programs=$BATS_FILE_TMPDIR/examples
  cmake -G Ninja -S "$prefix/share/muster/examples" -B "$programs" -DCMAKE_PREFIX_PATH="$prefix" > /dev/null
  cmake --build "$programs" > /dev/null
  cd "$BATS_TEST_TMPDIR"
  for program in spirals spirals_c; do
    run -0 timeout 300 "$programs/$program" $program.state 30
    run -0 --separate-stderr timeout 300 "$MPIRUN_WITH_RETRY" mpirun --allow-run-as-root --oversubscribe -n 2 "$programs/$program" $program.state 100
    [[ "${lines[0]}" = "epoch 31: loss 0.0"* ]] && [[ "${lines[-1]}" = "epoch 100: loss 0.00"* ]]
    echo damaged > damaged.state
    run -1 bash -c "timeout 300 mpirun --allow-run-as-root --oversubscribe -n 2 '$programs/$program' damaged.state 2>&1 | grep -c '^$program:.*damaged.state is not a checkpoint of this program' | grep -vx 1"
  done
  cmp spirals.state spirals_c.state
}

@test "check-build lists the versions that it found, and - for missing ones" {
  # row NAME BUILT FOUND: the table has such a row.
  row() { grep -qE "^  $1 +(yes|no) +$2 +$3 +[a-z]" <<<"$output" || { echo "no row '$1' with $2 and $3 in: $output"; return 1; }; }
  MUSTER_NCCL_LIBRARY=/nonexistent.so run -0 "$root/usr/bin/muster" check-build
  row 'Slurm headers' '[0-9]+\.[0-9]+\S*' '[0-9]+(\.[0-9]+)+'
  row PMIx '[0-9]+\.[0-9]+\S*' '[0-9]+(\.[0-9]+)+'
  row 'Open MPI' '[0-9]+\.[0-9]+\S*' '[0-9]+(\.[0-9]+)+'
  row NCCL '\S+' -
  double=$build/tests/unit/runtime/libfake_nccl.so
  [ -e "$double" ] || skip "this build has no CUDA, so no NCCL is asked for its version"
  MUSTER_NCCL_LIBRARY=$double run -0 "$root/usr/bin/muster" check-build
  row NCCL '[0-9]+(\.[0-9]+)+' '[0-9]+(\.[0-9]+)+'
}

@test "pkg-config gives flags that compile the same program" {
  library=$(dirname "$(find "$root/usr/lib" -name 'libmuster.so' | head -n 1)")
  flags=$(PKG_CONFIG_PATH=$library/pkgconfig pkg-config --cflags --libs muster)
  # shellcheck disable=SC2086  # several flags
  g++ -std="$(PKG_CONFIG_PATH=$library/pkgconfig pkg-config --variable=cxx_std muster)" tests/cluster/install/ten_lines.cpp -o "$BATS_FILE_TMPDIR/by_pkg_config" $flags
  LD_LIBRARY_PATH=$library run timeout 300 "$BATS_FILE_TMPDIR/by_pkg_config"
  [ "$output" = "rank 0 of 1: sum 1" ]
}

@test "pkg-config gives flags that compile a C program" {
  library=$(dirname "$(find "$root/usr/lib" -name 'libmuster.so' | head -n 1)")
  flags=$(PKG_CONFIG_PATH=$library/pkgconfig pkg-config --cflags --libs muster)
  # shellcheck disable=SC2086  # several flags
  gcc -std=c99 -pedantic -Werror tests/unit/runtime/c/c_program.c -o "$BATS_FILE_TMPDIR/c_program" $flags
  LD_LIBRARY_PATH=$library run timeout 300 "$BATS_FILE_TMPDIR/c_program"
  [ "$status" = 0 ]
}

@test "a program that was built against another ABI does not start, and the loader names the missing one" {
  library=$(dirname "$(find "$root/usr/lib" -name 'libmuster.so' | head -n 1)")
  mkdir "$BATS_FILE_TMPDIR/other"
  echo 'int muster_abi_version(void) { return 2; }' > "$BATS_FILE_TMPDIR/other.c"
  echo 'MUSTER_C_2 { global: muster_*; local: *; };' > "$BATS_FILE_TMPDIR/other.map"
  gcc -shared -fPIC -Wl,-soname,libmuster.so.0,--version-script="$BATS_FILE_TMPDIR/other.map" "$BATS_FILE_TMPDIR/other.c" \
    -o "$BATS_FILE_TMPDIR/other/libmuster.so.0"
  echo 'int muster_abi_version(void); int main(void) { return muster_abi_version(); }' > "$BATS_FILE_TMPDIR/main.c"
  gcc "$BATS_FILE_TMPDIR/main.c" "$BATS_FILE_TMPDIR/other/libmuster.so.0" -o "$BATS_FILE_TMPDIR/of_another_abi"
  LD_LIBRARY_PATH=$library run "$BATS_FILE_TMPDIR/of_another_abi"
  [ "$status" = 1 ]
  [[ "$output" == *"libmuster.so.0: version \`MUSTER_C_2' not found"* ]]
}
