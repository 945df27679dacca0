#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The packages: their contents and dependencies, and that a machine on which they are installed runs jobs.
# They are installed into a copy of this machine's file system (clean_machine.bash); the lab runs on that
# copy.
load setup

setup_file() {
  export PACKAGES=$BATS_FILE_TMPDIR/packages MACHINE=$BATS_FILE_TMPDIR/machine RPMS=$BATS_FILE_TMPDIR/rpms
  mkdir "$PACKAGES" "$MACHINE"
  make_packages > "$BATS_FILE_TMPDIR/packages.log" 2>&1 || { tail -n 30 "$BATS_FILE_TMPDIR/packages.log"; return 1; }
  unshare --mount setpriv --pdeathsig KILL bash tests/cluster/clean_machine.bash "$MACHINE" "$REPOSITORY" "$MUSTER_BUILD" \
    > "$BATS_FILE_TMPDIR/machine.log" 2>&1 3>&- &
  export MACHINE_PID=$!
  wait_until '[ -e "$MACHINE/ready" ] || ! kill -0 "$MACHINE_PID" 2>/dev/null'
  [ -e "$MACHINE/ready" ] || { cat "$BATS_FILE_TMPDIR/machine.log"; return 1; }
  lab_up --nodes 2 --gpus 2 --etc <(echo PlugStackConfig=/etc/slurm/plugstack.conf)
}
teardown_file() {
  lab down
  kill "$MACHINE_PID"
}

# make_packages: builds the target `package` in a copy of the build folder that is configured like the preset
# package, and the RPMs of muster.spec from what is built there. Nothing is compiled again.
make_packages() {
  mkdir "$BATS_FILE_TMPDIR/own"
  if has_older_rpm; then
    mkdir -p "$RPMS/BUILD/muster-$(version)"
    cp LICENSE "$RPMS/BUILD/muster-$(version)"
  fi
  # shellcheck disable=SC2016  # expanded by that shell
  unshare --mount bash -ec '
    mount -t tmpfs own "$2" && mkdir "$2/changes" "$2/work"
    mount -t overlay own -o "lowerdir=$1,upperdir=$2/changes,workdir=$2/work" "$1"
    cmake -D MUSTER_SYSTEM=ON -D MUSTER_TESTS=OFF "$1"
    cmake --build "$1" --target package
    cp "$1"/packages/*.* "$3"
    if [ -d "$4" ]; then
      for step in -bi -bb; do
        rpmbuild $step --short-circuit --nodeps -D "_topdir $4" -D "_vpath_builddir $1" etc/packages/muster.spec
      done
    fi' - "$MUSTER_BUILD" "$BATS_FILE_TMPDIR/own" "$PACKAGES" "$RPMS"
}
version() { sed -nE 's/^project\(.* VERSION ([0-9.]+) .*/\1/p' CMakeLists.txt; }
# has_older_rpm: RPM before 4.20, whose builds can begin with their installation.
has_older_rpm() {
  command -v rpmbuild > /dev/null && [ "$(printf '%s\n' 4.20 "$(rpm --version | awk '{ print $NF }')" | sort --version-sort | head -n 1)" != 4.20 ]
}

# Replaces setup.bash's: the lab runs on the clean machine.
lab() { timeout --foreground --kill-after=5 "$LAB_DEADLINE" nsenter --target "$MACHINE_PID" --mount --wdns="$PWD" "$LAB_COMMAND" "$@"; }
# machine CMD…: runs it on the clean machine. (dpkg: --no-triggers, because ldconfig and man-db would scan the
# whole machine.)
machine() { timeout --foreground "$LAB_DEADLINE" nsenter --target "$MACHINE_PID" --mount --wdns="$PWD" "$@"; }
# package NAME: prints its file name.
package() { echo "$PACKAGES/$1"_*.deb; }
# field PACKAGE FIELD
field() { dpkg-deb --field "$(package "$1")" "$2"; }
# changed: lists the files that changed, except for the records of dpkg and its triggers.
changed() {
  machine find "$MACHINE/overlay/changes" ! -type d -printf '%P\n' | grep -vE '^var/(lib/dpkg|log|cache)/|^root/\.cache/|^etc/ld\.so\.cache$' | sort
}
# slurm_series: prints the major and minor version of this machine's Slurm, from its package.
slurm_series() { dpkg-query --show --showformat '${Version}' slurm-wlm-basic-plugins | grep -oE '^[0-9]+\.[0-9]+'; }

@test "the preset package makes the packages without building or looking for anything of the tests" {
  cmake --preset package -B "$BATS_TEST_TMPDIR/fresh" -D CMAKE_DISABLE_FIND_PACKAGE_Catch2=ON > /dev/null
  run -0 ninja -C "$BATS_TEST_TMPDIR/fresh" -t inputs package
  [[ "$output" == *"$PWD/spank/hooks/plugin.cpp"* && "$output" == *"bin/muster-train"* ]]
  [ -z "$(grep -E "^($PWD/)?tests/" <<<"$output")" ]
  grep -qx 'MUSTER_SYSTEM:.*=ON' "$BATS_TEST_TMPDIR/fresh/CMakeCache.txt"
}

@test "the target package builds no tests where the build has them" {
  cmake --preset package -B "$BATS_TEST_TMPDIR/tested" -D MUSTER_TESTS=ON > /dev/null
  run -0 ninja -C "$BATS_TEST_TMPDIR/tested" -t inputs all
  [ -n "$(grep -E "^($PWD/)?tests/" <<<"$output")" ]
  run -0 ninja -C "$BATS_TEST_TMPDIR/tested" -t inputs package
  [[ "$output" == *"bin/muster-train"* ]]
  [ -z "$(grep -E "^($PWD/)?tests/" <<<"$output")" ]
}

@test "without MUSTER_SYSTEM the target package prints what to do" {
  cmake -S . -B "$BATS_TEST_TMPDIR/plain" -G Ninja > /dev/null
  run ! ninja -C "$BATS_TEST_TMPDIR/plain" package
  grep -qx 'package: needs -DMUSTER_SYSTEM=ON: cmake --workflow --preset package' <<<"$output"
}

@test "only the plugin's version names the Slurm release" {
  for name in libmuster-dev libmuster muster-trainer; do [[ "$(field $name Version)" =~ ^[0-9.]+-[0-9]+$ ]]; done
  [[ "$(field muster-slurm-plugin Version)" =~ ^[0-9.]+-[0-9]+\+slurm$(slurm_series)$ ]]
  dpkg-deb --fsys-tarfile "$(package muster-slurm-plugin)" | tar -xO ./usr/share/doc/muster-slurm-plugin/changelog.Debian.gz | zcat \
    | grep -qF "($(field muster-slurm-plugin Version))"
}

@test "there are four packages, each with its own files, owned by root and writable only by root" {
  [ "$(cd "$PACKAGES" && echo *.deb | sed 's/_[^ ]*//g')" = "libmuster-dev libmuster muster-slurm-plugin muster-trainer" ]
  for name in libmuster-dev libmuster muster-slurm-plugin muster-trainer; do
    listing=$(dpkg-deb --contents "$(package $name)")
    [ -z "$(grep -v ' root/root ' <<<"$listing")" ]
    [ -z "$(awk '$1 !~ /^(drwxr-xr-x|-rw-r--r--|-rwxr-xr-x|lrwxrwxrwx)$/' <<<"$listing")" ]
    # Only below /usr and /etc.
    [ -z "$(awk '$6 !~ /^\.\/(usr|etc)\//' <<<"$listing")" ]
    grep -q "./usr/share/doc/$name/copyright$" <<<"$listing"
    [ -n "$(field $name Description)" ] && [ -n "$(field $name Maintainer)" ]
  done
  # No file is in two packages.
  [ -z "$(for file in "$PACKAGES"/*.deb; do dpkg-deb --contents "$file" | awk '$1 !~ /^d/ { print $6 }'; done | sort | uniq -d)" ]
}

@test "every file of the plugin package under /etc is a configuration file that dpkg keeps" {
  listed=$(dpkg-deb --contents "$(package muster-slurm-plugin)" | awk '$1 ~ /^-/ && $6 ~ /^\.\/etc\// { print substr($6, 2) }' | sort)
  [[ "$listed" == */etc/slurm/plugstack.conf.d/zz-muster.conf* ]]
  [ "$(dpkg-deb --info "$(package muster-slurm-plugin)" conffiles | sort)" = "$listed" ]
}

@test "the plugin is where this machine's Slurm looks for plugins, and its line has only the file name" {
  folder=$(dirname "$(dpkg --listfiles slurm-wlm-basic-plugins | grep '/auth_munge.so$')")
  for file in spank_muster.so spank_muster_step.so; do dpkg-deb --contents "$(package muster-slurm-plugin)" | grep -q " \.$folder/$file$"; done
  dpkg-deb --fsys-tarfile "$(package muster-slurm-plugin)" | tar -xO ./etc/slurm/plugstack.conf.d/zz-muster.conf \
    | grep -qx 'optional spank_muster.so default=off'
}

@test "the documents are in a package" {
  dpkg-deb --contents "$(package libmuster)" >"$BATS_TEST_TMPDIR/listing"
  for file in docs/*.md docs/*.svg; do
    # only for readers of the sources
    case $file in docs/CHANGELOG.md | docs/architecture.md | docs/style.md | docs/tutorial.md) continue ;; esac
    grep -q " ./usr/share/doc/muster/$(basename "$file")$" "$BATS_TEST_TMPDIR/listing"
  done
}

# code_of FILE…: lists the libraries whose code is in these binaries of the build, which are not stripped, by
# the names of their packages' notices.
code_of() {
  nm --defined-only "$@" | sed -nE 's/.* _ZN[rVKRO]*([0-9]+)([A-Za-z_].*)/\1 \2/p' | awk '{ print substr($2, 1, $1) }' | sort -u \
    | grep -vxE 'muster|__gnu_cxx|__cxxabiv1|_GLOBAL__N_1' \
    | sed 's/^CLI$/CLI11/; s/^dnnl$/oneDNN/; s/^nlohmann$/nlohmann_json/; s/^pugi$/pugixml/; s/^toml$/tomlplusplus/' | sort
}
# notices PACKAGE: lists the libraries that its copyright file names.
notices() {
  dpkg-deb --fsys-tarfile "$(package "$1")" | tar -xO "./usr/share/doc/$1/copyright" | sed -n 's/^== Contains code of \([^ ]*\), whose.*/\1/p' | sort
}

@test "each package has the notices of exactly the libraries whose code is in it" {
  diff <(notices muster-slurm-plugin) <(code_of "$MUSTER_BUILD"/lib/spank_muster{,_step}.so)
  diff <(notices libmuster) <(code_of "$MUSTER_BUILD"/lib/libmuster.so.0 "$MUSTER_BUILD/bin/muster")
  diff <(notices muster-trainer) <(code_of "$MUSTER_BUILD/bin/muster-train")
  [ -z "$(notices libmuster-dev)" ]
  # The notices themselves are there.
  for words in 'Kohlhoff' 'Henry.*Schreiner' 'Victor Zverovich' 'Niels Lohmann' 'Arseny Kapoulkine' 'Permission is hereby granted'; do
    dpkg-deb --fsys-tarfile "$(package libmuster)" | tar -xO ./usr/share/doc/libmuster/copyright | grep -q "$words"
  done
}

# lacks FILE: lists the hardening features of the distributions that this binary lacks. spank_muster.so has no
# index that could be out of range. __snprintf_chk may be a static library's.
lacks() {
  local headers dynamic symbols code text
  headers=$(readelf -lW "$1") dynamic=$(readelf -dW "$1") symbols=$(nm -D "$1") code=$(objdump -d --no-show-raw-insn "$1") text=$(strings "$1")
  grep -qE '^ +GNU_STACK .* RW ' <<<"$headers" || echo "a stack without code"
  grep -q '^ *GNU_RELRO ' <<<"$headers" && grep -qE 'BIND_NOW|FLAGS_1.* NOW' <<<"$dynamic" || echo "full relro"
  [[ $1 != */bin/* ]] || grep -q 'FLAGS_1.* PIE' <<<"$dynamic" || echo PIE
  grep -q ' __stack_chk_fail' <<<"$symbols" || echo "stack protector"
  grep -E ' U __[a-z_]+_chk' <<<"$symbols" | grep -qvE '__stack_chk|__snprintf_chk' || echo _FORTIFY_SOURCE
  [[ $1 == */spank_muster.so ]] || grep -q '__n < this->size()' <<<"$text" || echo _GLIBCXX_ASSERTIONS
  if [ "$(uname -m)" = x86_64 ]; then
    grep -qE 'or[blq]? +\$0x0,(0x[0-9a-f]+)?\(%rsp' <<<"$code" || echo "stack clash protection"
  fi
}

@test "every binary has the distributions' hardening" {
  files=$BATS_TEST_TMPDIR/files
  for file in "$PACKAGES"/*.deb; do dpkg-deb --extract "$file" "$files"; done
  binaries=$(find "$files" -type f \( -path '*/usr/bin/*' -o -name '*.so*' \) | sort)
  [ "$(wc -l <<<"$binaries")" = 5 ]
  for file in $binaries; do
    missing=$(lacks "$file" | paste -sd,)
    [ -z "$missing" ] || { echo "${file#"$files"} lacks $missing"; false; }
  done
}

@test "functions begin with the only instruction that is a valid target of indirect branches" {
  [ "$(uname -m)" = x86_64 ] || skip "it is x86's"
  for package in muster-slurm-plugin libmuster muster-trainer; do dpkg-deb --extract "$(package $package)" "$BATS_TEST_TMPDIR/files"; done
  for file in $(find "$BATS_TEST_TMPDIR/files" -name 'spank_muster.so' -o -name 'libmuster.so.*.*'); do
    # By address, because a function may have several names.
    objdump -d --no-show-raw-insn "$file" | awk '$2 == "endbr64" { sub(/:/, "", $1); print $1 }' | sort -u >"$BATS_TEST_TMPDIR/marked"
    nm -D --defined-only "$file" | awk '$2 == "T" { sub(/^0+/, "", $1); print $1 }' | sort -u >"$BATS_TEST_TMPDIR/functions"
    [ -s "$BATS_TEST_TMPDIR/functions" ]
    run -0 comm -13 "$BATS_TEST_TMPDIR/marked" "$BATS_TEST_TMPDIR/functions"
    [ -z "$output" ]
  done
  # A program's own functions have no names left; a build without marks has three marks, the C library's.
  for file in "$BATS_TEST_TMPDIR"/files/usr/bin/*; do [ "$(objdump -d --no-show-raw-insn "$file" | grep -c endbr64)" -gt 100 ]; done
}

@test "the plugin depends on libc and exactly the Slurm series that it was built for, not on the runtime" {
  series=$(slurm_series)
  depends=$(field muster-slurm-plugin Depends)
  [ "$(tr ',' '\n' <<<"$depends" | sed 's/^ *\([a-z0-9-]*\).*/\1/' | sort -u | paste -sd' ')" = "libc6 slurm-wlm-basic-plugins" ]
  [[ "$depends" == *"slurm-wlm-basic-plugins (>= $series)"* ]]
}

@test "with a Slurm of another series dpkg refuses the plugin, and prints the reason" {
  series=$(slurm_series)
  for version in 21.08.8-1 "${series%.*}.99.1-1" "$series.99-1"; do
    awk -v version="$version" \
      '/^Package: / { mine = $2 == "slurm-wlm-basic-plugins" } mine && /^Version: / { $0 = "Version: " version } { print }' /var/lib/dpkg/status \
      | machine tee /var/lib/dpkg/status > /dev/null
    run machine dpkg --no-triggers --install "$(package muster-slurm-plugin)"
    machine dpkg --no-triggers --purge muster-slurm-plugin
    if [[ $version == "$series".* ]]; then
      [ "$status" = 0 ] || { echo "$output"; false; }
    else
      [ "$status" != 0 ]
      [[ "$output" == *"muster-slurm-plugin depends on slurm-wlm-basic-plugins"* && "$output" == *"$version"* ]] || { echo "$output"; false; }
    fi
  done
  machine tee /var/lib/dpkg/status < /var/lib/dpkg/status > /dev/null
}

@test "libmuster-dev and muster-trainer depend on exactly this libmuster" {
  version=$(field libmuster Version)
  for name in libmuster-dev muster-trainer; do [[ ", $(field $name Depends), " == *", libmuster (= $version), "* ]]; done
  [[ "$(field libmuster Depends)" != *slurm* ]]
  [[ "$(field libmuster Recommends)" == libopenmpi* ]]
  [ "$(dpkg-deb --info "$(package libmuster)" triggers)" = "activate-noawait ldconfig" ]
}

@test "on a clean machine the plugin package and one line in plugstack.conf suffice to place a job" {
  [ -z "$(changed)" ]
  machine dpkg --no-triggers --install "$(package muster-slurm-plugin)"
  machine sh -c ': > /etc/slurm/plugstack.conf'
  run lab exec srun -N1 -n1 --muster true
  [ "$status" != 0 ] && [[ "$output" == *"unrecognized option"* ]]
  machine sh -c 'echo "optional spank_muster.so" > /etc/slurm/plugstack.conf'
  run lab exec srun -N2 --ntasks-per-node=2 --gpus-per-task=1 --muster bash -c 'echo "$SLURM_PROCID $MUSTER_GPUS $MUSTER_CPUS"'
  [ "$status" = 0 ] || { echo "$output"; false; }
  for rank in 0 1 2 3; do [ "$(grep -cE "^$rank 0000:[0-9a-f:.]+ [0-9]" <<<"$output")" = 1 ]; done
}

@test "with Debian's own plugstack.conf, which includes plugstack.conf.d, the line is not needed" {
  machine sh -c 'echo "include /etc/slurm/plugstack.conf.d/*.conf" > /etc/slurm/plugstack.conf'
  run lab exec srun -N1 -n1 --gpus-per-task=1 --muster bash -c 'echo "gpu $MUSTER_GPUS"'
  [ "$status" = 0 ] && [[ "$output" == *"gpu 0000:"* ]]
  # The shipped line places only steps with --muster.
  run lab exec srun -N1 -n1 --gpus-per-task=1 bash -c 'echo "gpu ${MUSTER_GPUS-unset}"'
  [[ "$output" == *"gpu unset"* ]]
}

@test "Slurm reads the line after that of pyxis" {
  # It logs each line that it cannot read.
  machine sh -c 'cd /etc/slurm/plugstack.conf.d && echo unreadable > pyxis.conf && echo unreadable >> zz-muster.conf'
  run -0 lab exec srun -N1 -n1 true
  machine sh -c 'cd /etc/slurm/plugstack.conf.d && rm pyxis.conf && sed -i "\$d" zz-muster.conf'
  [ "$(sed -n 's|^srun: .*spank: .*/\(.*\.conf\):.*|\1|p' <<<"$output" | paste -sd' ')" = "pyxis.conf zz-muster.conf" ] || { echo "$output"; false; }
}

@test "when reinstalled, the package keeps an edited configuration file" {
  machine sh -c 'echo "# edited" >> /etc/slurm/plugstack.conf.d/zz-muster.conf'
  machine dpkg --no-triggers --install "$(package muster-slurm-plugin)" < /dev/null
  [ "$(machine tail -n 1 /etc/slurm/plugstack.conf.d/zz-muster.conf)" = "# edited" ]
}

@test "the trainer's package trains by its installed template and program" {
  machine dpkg --no-triggers --install "$(package libmuster)" "$(package muster-trainer)"
  [[ "$(machine muster --version)" == "muster "* ]]
  run machine sh -c 'ldd /usr/bin/muster-train /usr/bin/muster'
  [[ "$output" == *"libmuster.so.0 => /"*"lib/"* && "$output" != *"not found"* && "$output" != *"$MUSTER_BUILD"* ]]
  mkdir "$BATS_TEST_TMPDIR/out"
  PATH=/usr/bin:/bin run lab exec sbatch --wait --output="$BATS_TEST_TMPDIR/out/job.log" /usr/share/muster/sbatch/train.sbatch \
    --device cpu --layers 1 --heads 2 --width 32 --context 32 --batch 8 --steps 3 --output "$BATS_TEST_TMPDIR/out"
  cat "$BATS_TEST_TMPDIR/out/job.log"
  [ "$status" = 0 ] || { echo "$output"; false; }
  [ -s "$BATS_TEST_TMPDIR/out/checkpoints/step-00000003/tensors.safetensors" ]
}

@test "with the development package pkg-config and CMake find the installed library" {
  machine dpkg --no-triggers --install "$(package libmuster-dev)"
  run machine pkg-config --libs muster
  [ "$status" = 0 ] && [[ "$output" == *-lmuster* ]] || { echo "$output"; false; }
  run machine cmake -S tests/cluster/install -B "$BATS_TEST_TMPDIR/ten" -G Ninja
  [ "$status" = 0 ] || { echo "$output"; false; }
  grep -q '^muster_DIR:PATH=/usr/lib/' "$BATS_TEST_TMPDIR/ten/CMakeCache.txt"
}

@test "after removal only the configuration is left; after purge nothing, and jobs run as before" {
  machine sh -c ': > /etc/slurm/plugstack.conf'
  machine sh -c 'mkdir /run/muster && echo kept > /run/muster/topology'
  machine dpkg --no-triggers --remove muster-trainer libmuster-dev libmuster muster-slurm-plugin
  left=$(changed | grep -v '^etc/slurm/plugstack.conf$')
  echo "left: $left";   [ "$left" = "$(dpkg-deb --info "$(package muster-slurm-plugin)" conffiles | sed 's|^/||' | sort)" ]
  machine dpkg --no-triggers --purge muster-slurm-plugin
  machine sh -c '[ ! -e /run/muster ]'
  [ "$(changed)" = etc/slurm/plugstack.conf ]
  run lab exec srun -N2 -n2 true
  [ "$status" = 0 ] || { echo "$output"; false; }
}

@test "the RPMs require the same Slurm series, and their specs are valid" {
  command -v rpmbuild > /dev/null || skip "rpmbuild is missing (on Debian: rpm)"
  series=$(slurm_series)
  requires=$(rpm --query --requires --package "$PACKAGES"/muster-slurm-plugin-*.rpm)
  grep -qx "slurm >= $series" <<<"$requires"
  grep -qx "slurm < ${series%.*}.$(printf %02d $((10#${series#*.} + 1)))" <<<"$requires"
  [[ "$requires" != *libmuster* && "$requires" != *libstdc++* ]]
  grep -qx 'libmuster.so.0()(64bit)' <<<"$(rpm --query --requires --package "$PACKAGES"/muster-trainer-*.rpm)"
  [[ "$(rpm --query --configfiles --package "$PACKAGES"/muster-slurm-plugin-*.rpm)" == */plugstack.conf.d/zz-muster.conf* ]]
  # They do not own the system's folders.
  for file in "$PACKAGES"/*.rpm; do
    [ -z "$(rpm --query --list --package "$file" | grep -xE '/etc|/etc/slurm|/usr/lib|/usr/lib/[^/]*|.*/(slurm|slurm-wlm|man[1-8]|pkgconfig)')" ]
  done
  for name in libmuster libmuster-devel muster-slurm-plugin muster-trainer; do
    rpmspec --parse "$PACKAGES/$name.spec" > /dev/null
  done
}

# files_of RPM: lists its files, without the debugger's links and without the licence, which each kind has elsewhere.
files_of() { rpm --query --package "$1" --queryformat '[%{FILEMODES:perms} %{FILENAMES}\n]' | grep -vE '^d|/\.build-id/|/LICENSE$' | sort; }

@test "muster.spec makes the RPMs that the target package makes" {
  has_older_rpm || skip "needs rpmbuild before 4.20 (on Debian 12: rpm)"
  local file own name
  for file in "$PACKAGES"/*.rpm; do
    own=$RPMS/RPMS/$(uname -m)/$(basename "$file")
    [ -n "$(files_of "$file")" ]
    diff <(files_of "$file") <(files_of "$own")
    rpm --query --list --package "$own" | grep -q '^/usr/share/licenses/.*/LICENSE$'
    diff <(rpm --query --configfiles --package "$file") <(rpm --query --configfiles --package "$own")
    name=$(rpm --query --package --queryformat '%{NAME}' "$file")
    # The folders that no other package has are the package's own.
    for folder in $(rpm --query --list --package "$own" | sed -nE 's|/[^/]+$||p' | grep muster | sort -u); do
      rpm --query --package "$own" --queryformat '[%{FILEMODES:perms} %{FILENAMES}\n]' | grep -qE "^d.* $folder$" || { echo "$name: $folder"; false; }
    done
  done
  diff <(rpm --query --requires --package "$PACKAGES"/muster-slurm-plugin-*.rpm | grep slurm) \
    <(rpm --query --requires --package "$RPMS"/RPMS/*/muster-slurm-plugin-*.rpm | grep slurm)
  rpm --query --scripts --package "$RPMS"/RPMS/*/muster-slurm-plugin-*.rpm | grep -q '/run/muster/topology'
}
