#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# For scripts that run muster-train on several ranks: a folder that goes away with the script, a text to train on, and fail().
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# write_text LINES
write_text() {
  i=0
  while [ $i -lt "$1" ]; do
    echo "line $i of a text that is long enough to learn something from"
    i=$((i + 1))
  done > "$folder/text"
}
fail() {
  echo "FAILED: $*" >&2
  exit 1
}
