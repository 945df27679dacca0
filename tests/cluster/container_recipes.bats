#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The scripts that make container images (etc/containers): bad input ends them with one line, before they change anything. The images
# themselves are tested by ./check --containers.

setup() { recipes=$PWD/etc/containers folder=$BATS_TEST_TMPDIR/packages; mkdir "$folder"; }

# refuses LINE COMMAND…: it fails, and LINE, a pattern, is all that it prints.
refuses() {
  local line=$1
  shift
  run "$@"
  echo "$output"
  [ "$status" = 1 ] && [ "${#lines[@]}" = 1 ]
  # shellcheck disable=SC2053 # a pattern
  [[ "$output" == $line ]]
}

# package NAME VERSION: an empty Debian package in the folder.
package() {
  local tree=$BATS_TEST_TMPDIR/tree
  mkdir -p "$tree/DEBIAN"
  printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: nobody <nobody@muster.invalid>\nDescription: empty\n' "$1" "$2" > "$tree/DEBIAN/control"
  dpkg-deb --build "$tree" "$folder/$1_$2_all.deb" > /dev/null
}

@test "each script prints its options" {
  for script in build-packages install-muster build-image; do
    run "$recipes/$script" --help
    [ "$status" = 0 ] && [[ "$output" == "Usage: "*"$script"* ]]
  done
}

@test "build-image refuses what is not an image, a release, a folder or new" {
  refuses "build-image: 'plugin' is not an image: name trainer, slurmd or login" "$recipes/build-image" plugin "$folder" "$BATS_TEST_TMPDIR/new"
  refuses "build-image: a release is a Debian code name, for example bookworm, not '12'" "$recipes/build-image" --release 12 trainer "$folder" "$BATS_TEST_TMPDIR/new"
  refuses "build-image: --mirror needs a value*" "$recipes/build-image" --mirror
  refuses "build-image: --engine is not known*" "$recipes/build-image" --engine podman
  refuses "build-image: no folder $folder/none: *build-packages*" "$recipes/build-image" trainer "$folder/none" "$BATS_TEST_TMPDIR/new"
  refuses "build-image: no file libmuster_\*.deb in $folder: *build-packages*" "$recipes/build-image" trainer "$folder" "$BATS_TEST_TMPDIR/new"
  [ ! -e "$BATS_TEST_TMPDIR/new" ]
  package muster-slurm-plugin 1
  refuses "build-image: $folder is there already: *" "$recipes/build-image" login "$folder" "$folder"
}

@test "install-muster refuses a folder without the packages or with two of a kind, and another Slurm's plugin" {
  refuses "install-muster: no folder $folder/none" "$recipes/install-muster" trainer "$folder/none"
  refuses "install-muster: 'all' is neither trainer nor plugin" "$recipes/install-muster" all "$folder"
  refuses "install-muster: no file libmuster_\*.deb in $folder: *build-packages*" "$recipes/install-muster" trainer "$folder"
  package libmuster 1 && package libmuster 2
  refuses "install-muster: 2 files are called libmuster_\*.deb in $folder: leave one of them" "$recipes/install-muster" trainer "$folder"
  package muster-slurm-plugin 1-1+slurm99.01
  refuses "install-muster: this image has Slurm *, but muster-slurm-plugin_*.deb is for Slurm 99.01: build it with this image's Slurm" \
    "$recipes/install-muster" plugin "$folder"
  refuses "install-muster: root is needed*" setpriv --reuid=nobody --clear-groups bash -s trainer / < "$recipes/install-muster"
}

@test "build-packages refuses an option in place of the folder" {
  refuses "build-packages: the folder for the packages comes before -DMUSTER_CUDA=ON" "$recipes/build-packages" -DMUSTER_CUDA=ON
}
