#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clean_machine.bash FOLDER [SHARED-FOLDER…]: makes a copy of this machine's file system in which packages can
# be installed without changing the real one: an overlay on / in a mount namespace that lives as long as this
# process. Run it in a new namespace: unshare --mount. FOLDER/ready appears when nsenter --mount can enter it;
# inside, FOLDER/overlay/changes holds the changed files, /run is empty, and /proc, /sys, /dev, /tmp and the
# shared folders are the machine's own.
set -euo pipefail
folder=$1
shift
mount --make-rprivate /
mkdir "$folder/overlay"
# A separate file system: an overlay cannot store its changes on another overlay, and / is one in a container.
mount -t tmpfs clean-machine "$folder/overlay"
mkdir "$folder/overlay/changes" "$folder/overlay/work" "$folder/overlay/root"
root=$folder/overlay/root
mount -t overlay clean-machine -o "lowerdir=/,upperdir=$folder/overlay/changes,workdir=$folder/overlay/work" "$root"
[[ -x $root/usr/bin/dpkg ]] || { echo "clean_machine: /usr is a file system of its own, which an overlay on / does not show" >&2; exit 1; }
mount -t tmpfs -o mode=755 clean-machine "$root/run"
for shared in /proc /sys /dev /tmp "$@"; do mount --rbind "$shared" "$root$shared"; done
mount --bind "$folder/overlay" "$root$folder/overlay"
cd "$root"
mkdir -p mnt/machine
pivot_root . mnt/machine
cd /
umount --lazy /mnt/machine
: > "$folder/ready"
exec sleep infinity
