#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The messages of ./demo and ./check when they cannot install: the packages that are needed; nothing is
# half-installed.

bats_require_minimum_version 1.5.0

setup() {
  stand_ins=$BATS_TEST_TMPDIR/bin
  mkdir "$stand_ins"
  # A dpkg-query that knows no package, and an apt-get that must not be called.
  printf '#!/bin/sh\nexit 1\n' > "$stand_ins/dpkg-query"
  printf '#!/bin/sh\necho REACHED; exit 1\n' > "$stand_ins/apt-get"
  chmod +x "$stand_ins"/*
  export PATH=$stand_ins:$PATH
}

# as_if ID VERSION_ID: runs install-packages with this /etc/os-release.
as_if() {
  printf 'ID=%s\nVERSION_ID=%s\nPRETTY_NAME="%s %s"\n' "$1" "$2" "$1" "$2" > "$BATS_TEST_TMPDIR/os-release"
  unshare --mount bash -c 'mount --bind "$1" /etc/os-release && exec .ci/install-packages build lab' - "$BATS_TEST_TMPDIR/os-release"
}

@test "on another distribution or an older Debian the packages are named, and nothing is installed" {
  for system in "ubuntu 24.04" "fedora 41" "debian 11"; do
    # shellcheck disable=SC2086  # two words
    run as_if $system
    [ "$status" = 1 ]
    [[ "$output" == *"this is $system"* && "$output" == *libhwloc-dev* && "$output" == *slurmctld* ]]
    [[ "$output" != *REACHED* ]]
    [ "${#lines[@]}" = 1 ]
  done
}

@test "on a system without dpkg the packages are named" {
  mkdir "$BATS_TEST_TMPDIR/bare"
  for tool in bash awk dirname env; do ln -s "$(command -v $tool)" "$BATS_TEST_TMPDIR/bare/$tool"; done
  PATH=$BATS_TEST_TMPDIR/bare run .ci/install-packages build
  [ "$status" = 1 ]
  [[ "$output" == *"not a Debian system"*"libhwloc-dev"* ]]
}

@test "when apt-get fails, the end of its output and the log's path are printed" {
  run as_if debian 12
  [ "$status" = 1 ]
  [[ "$output" == *REACHED* && "$output" == *"apt-get failed; the whole log is "* ]]
}

@test "when nothing is missing, nothing is printed" {
  printf '#!/bin/sh\nprintf installed\n' > "$stand_ins/dpkg-query"
  run .ci/install-packages build lab check
  [ "$status" = 0 ]
  [ -z "$output" ]
}

@test "all libraries that the build needs and does not find are named at once" {
  run cmake -G Ninja -S . -B "$BATS_TEST_TMPDIR/build" -D CMAKE_DISABLE_FIND_PACKAGE_pugixml=ON -D ASIO_INCLUDE_DIR=ASIO_INCLUDE_DIR-NOTFOUND \
    -D CMAKE_INCLUDE_PATH=/nonexistent -D CMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF -D MUSTER_CUDA=OFF
  [ "$status" = 1 ]
  for name in libpugixml-dev libasio-dev libtomlplusplus-dev; do grep -q "(on Debian: $name)" <<<"$output"; done
}

@test "a part that is ON and lacks its library, and a value that no part has, stop the configuration" {
  run cmake -G Ninja -S . -B "$BATS_TEST_TMPDIR/build" -D MUSTER_CUDA=OFF -D MUSTER_HWLOC=OFF -D MUSTER_SLURM=ON
  [ "$status" = 1 ]
  grep -q "MUSTER_HWLOC not OFF, for MUSTER_SLURM=ON (on Debian: libhwloc-dev)" <<<"$output"
  run cmake -S . -B "$BATS_TEST_TMPDIR/build" -D MUSTER_SLURM=AUTO -D MUSTER_PMIX=maybe
  [ "$status" = 1 ]
  grep -q "MUSTER_PMIX='maybe' is none of AUTO, ON, OFF" <<<"$output"
}

@test "wrong arguments of demo and check are named on one line" {
  run ./demo --fast
  [ "$status" != 0 ] && [ "${#lines[@]}" = 1 ] && [[ "$output" == *"--fast"* ]]
  run ./demo --steps many
  [ "$status" != 0 ] && [ "${#lines[@]}" = 1 ] && [[ "$output" == *"many"* ]]
  run ./check --fast
  [ "$status" != 0 ] && [ "${#lines[@]}" = 1 ] && [[ "$output" == *"--fast"* ]]
}

@test "the source RPM has the spec and the sources, and its spec names the four packages" {
  command -v rpmbuild > /dev/null || skip "rpmbuild is missing (on Debian: rpm)"
  cd "$BATS_TEST_TMPDIR"
  local version spec=$OLDPWD/etc/packages/muster.spec query=(-D "slurm_series 24.11" -q --queryformat '%{NAME}-%{VERSION}-%{RELEASE}\n')
  version=$(sed -nE 's/^project\(.* VERSION ([0-9.]+) .*/\1/p' "$OLDPWD/CMakeLists.txt")
  tar -czf "muster-$version.tar.gz" --transform "s,^,muster-$version/," -C "$OLDPWD" CMakeLists.txt LICENSE etc/packages/muster.spec
  rpmbuild -ts -D "_topdir $PWD/top" "muster-$version.tar.gz"
  [ "$(rpm --query --list --package top/SRPMS/*.rpm | sort | paste -sd' ')" = "muster-$version.tar.gz muster.spec" ]
  [ "$(rpmspec "${query[@]}" "$spec" | sort | paste -sd' ')" = "libmuster-$version-1 libmuster-devel-$version-1 muster-$version-1 \
muster-slurm-plugin-$version-1+slurm24.11 muster-trainer-$version-1" ]
  # Slurm's series, and the choices.
  run -0 rpmspec -D 'slurm_series 24.11' -q --requires "$spec"
  grep -qx 'slurm >= 24.11' <<<"$output"
  grep -qx 'slurm < 24.12' <<<"$output"
  [[ "$(rpmspec --parse "$spec")" == *-DMUSTER_CUDA=OFF*-DMUSTER_ONEDNN=ON* ]]
  [[ "$(rpmspec --with cuda --without onednn --parse "$spec")" == *-DMUSTER_CUDA=ON*-DMUSTER_ONEDNN=OFF* ]]
  # Without Slurm's headers no plugin is built whose series is not known.
  run ! rpmbuild -tc --nodeps -D "_topdir $PWD/top" -D 'slurm_series %{nil}' "muster-$version.tar.gz"
  grep -q 'slurm_version.h was not found: install slurm-devel, or define slurm_series' <<<"$output"
}
