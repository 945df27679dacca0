# SPDX-License-Identifier: Apache-2.0
# Makes what the virtual machine starts from: kernel, initial RAM file system, root file system, the patched RDMA driver and the GPU stand-in.
# Kept in a folder whose name changes with the kernel's version and with everything that is read here.

DEBIAN=bookworm
MODULES=(virtio_pci virtio_blk ext4 e1000e rdma_rxe bridge veth crc32_generic crc32_pclmul crc32c_generic)
# A step of the making that takes longer has failed, in seconds.
MAKE_DEADLINE=${MUSTER_VM_MAKE_DEADLINE:-600}

# find_kernel: sets kernel_release ("6.1.0-56-amd64") and kernel_version ("6.1.192-2") to what Debian offers now.
find_kernel() {
  local attempt
  for attempt in known updated; do
    [[ $attempt == known ]] || timeout "$MAKE_DEADLINE" apt-get -q update >/dev/null || die "apt-get update failed: is Debian's archive reachable?"
    kernel_release=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: linux-image-\(.*\)/\1/p')
    kernel_version=$(apt-cache policy "linux-image-$kernel_release" 2>/dev/null | sed -n 's/.*Candidate: //p')
    if [[ -n $kernel_release && -n $kernel_version ]]; then return; fi
  done
  die "no linux-image-amd64 in apt's lists: does /etc/apt/sources.list.d name Debian's archive?"
}

# image_folder: sets images to where the images of this recipe and kernel belong.
image_folder() {
  local recipe
  find_kernel
  recipe=$(cd "$here" && sha256sum image.bash gpu_stub.cpp guest/* | sha256sum)
  images=$cache/${kernel_release}_${kernel_version}_${recipe:0:12}
}

# fetch PACKAGE[=VERSION]…: into $work/debs.
fetch() {
  mkdir -p "$work/debs"
  (cd "$work/debs" && apt-get -q download "$@")
}

make_kernel() {
  fetch "linux-image-$kernel_release=$kernel_version"
  dpkg-deb -x "$work/debs/linux-image-$kernel_release"_*.deb "$work/kernel"
  cp "$work/kernel/boot/vmlinuz-$kernel_release" "$work/done/vmlinuz"
  depmod -b "$work/kernel" "$kernel_release"
}

# The RDMA driver rxe as Debian has it, but for one line: its device becomes a child of the network card, as every real RDMA device is.
make_rdma_driver() {
  local headers=$work/headers/usr/src/linux-headers-$kernel_release folder=drivers/infiniband/sw/rxe common
  common=linux-headers-${kernel_release%-amd64}-common
  fetch "linux-source-6.1=$kernel_version" "linux-headers-$kernel_release=$kernel_version" "$common=$kernel_version" "linux-kbuild-6.1=$kernel_version"
  for package in "linux-headers-$kernel_release" "$common" linux-kbuild-6.1; do
    dpkg-deb -x "$work/debs/${package}"_*.deb "$work/headers"
  done
  # Unpacked and not installed: so that nothing depends on what kernel the host has headers for.
  sed -i "s|^include /usr/|include $work/headers/usr/|" "$headers/Makefile"
  dpkg-deb --fsys-tarfile "$work/debs/linux-source-6.1"_*.deb | tar -xO ./usr/src/linux-source-6.1.tar.xz | xz -dc -T0 |
    tar -x -C "$work" --wildcards "linux-source-6.1/$folder/*"
  mv "$work/linux-source-6.1/$folder" "$work/rxe"
  sed -i 's|^\tdev->node_type = RDMA_NODE_IB_CA;|&\n\tdev->dev.parent = rxe->ndev->dev.parent;|' "$work/rxe/rxe_verbs.c"
  grep -q 'dev.parent = rxe->ndev' "$work/rxe/rxe_verbs.c" || { echo "rxe_verbs.c has changed: nothing was patched"; return 1; }
  make -j2 -C "$headers" M="$work/rxe" CONFIG_RDMA_RXE=m modules
  strip --strip-debug "$work/rxe/rdma_rxe.ko"
}

make_gpu_stub() {
  g++ -std=c++20 -O1 -Wall -Wextra -Werror -shared -fPIC -fno-exceptions -fno-rtti -Wl,--as-needed -o "$work/done/gpu_stub.so" "$here/gpu_stub.cpp"
}

# Debian with systemd and Slurm.
make_root() {
  local packages
  packages=$(sed '/^#/d' "$here/guest/packages" | xargs | tr ' ' ,)
  mmdebstrap --mode=root --variant=minbase --format=directory --include="$packages" \
    --aptopt='Acquire::Languages "none"' --dpkgopt=force-unsafe-io \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    "$DEBIAN" "$work/root"
}

make_initial_ram() {
  local folder=$work/initial file
  mkdir -p "$folder/bin" "$folder/modules"
  cp /bin/busybox "$folder/bin/"
  cp "$here/guest/init" "$folder/init"
  while read -r _ file _; do
    [[ ! -e $folder/modules/${file##*/} ]] || continue
    cp "$file" "$folder/modules/"
    echo "${file##*/}" >>"$folder/modules/order"
  done < <(modprobe -d "$work/kernel" -S "$kernel_release" --show-depends -a "${MODULES[@]}")
  cp "$work/rxe/rdma_rxe.ko" "$folder/modules/"
  (cd "$folder" && find . | LC_ALL=C sort | busybox cpio -o -H newc) | gzip -1 >"$work/done/initrd.img"
}

make_disk() {
  local root=$work/root unit
  mkdir -p "$root/opt/lab" "$root/var/spool/slurmctld" "$root/var/spool/slurmd"
  cp "$work/rxe/rdma_rxe.ko" "$root/opt/lab/rdma_rxe.patched.ko"
  cp "$work/kernel/lib/modules/$kernel_release/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko" "$root/opt/lab/rdma_rxe.stock.ko"
  # mpi/pmix loads it by its unversioned name, which only the development package has.
  ln -s libpmix.so.2 "$root/usr/lib/x86_64-linux-gnu/libpmix.so"
  # What costs time at each start and serves nothing here.
  for unit in systemd-update-utmp systemd-random-seed systemd-pstore systemd-journal-flush systemd-timesyncd systemd-remount-fs \
    systemd-sysusers systemd-binfmt systemd-boot-system-token modprobe@ kmod-static-nodes rdma-ndd rdma-load-modules@ iwpmd rdma-hw; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit.service"
  done
  : >"$root/etc/fstab"
  echo vm0 >"$root/etc/hostname"
  printf '127.0.0.1 localhost vm0\n' >"$root/etc/hosts"
  rm -rf "$root/var/lib/apt/lists" "$root/var/cache/apt"
  mke2fs -q -t ext4 -O ^has_journal -E root_owner=0:0 -d "$root" "$work/done/root.img" 640M
}

# made NAME FUNCTION: runs one step into its log; its time is kept for the summary.
made() {
  local from to name=$1 status=0
  now_ms from
  # In the background, since -e does not hold to the left of ||.
  (set -e; "$2") >"$work/log/$name" 2>&1 &
  wait "$!" || status=$?
  now_ms to
  echo $((to - from)) >"$work/log/$name.ms"
  if ((status != 0)); then
    printf -- '--- last lines of %s ---\n' "$work/log/$name" >&2
    tail -n 15 "$work/log/$name" >&2
    echo "lab-vm: making the $name failed" >&2
  fi
  return "$status"
}

# make_images: fills $images, unless it is there.
make_images() {
  local from to name
  image_folder
  [[ ! -e $images/root.img ]] || return 0
  check_tools mmdebstrap:mmdebstrap depmod:kmod busybox:busybox-static mke2fs:e2fsprogs make:make g++-12:g++ xz:xz-utils
  now_ms from
  work=$cache/making.$$
  rm -rf --one-file-system -- "$cache"/making.* # of one that was killed
  mkdir -p "$work/log" "$work/done"
  set -m # a process group of its own, so that it can be ended with all that it started
  made root-file-system make_root &
  root_job=$!
  set +m
  if ! { made gpu-stub make_gpu_stub && made kernel make_kernel && made rdma-driver make_rdma_driver && made initial-ram make_initial_ram; }; then
    die "no images"
  fi
  wait "$root_job" && root_job='' && made disk make_disk || die "no images"
  # Only the newest images are kept.
  find "$cache" -mindepth 1 -maxdepth 1 ! -name "${work##*/}" ! -name lock ! -name run -exec rm -rf {} +
  mv "$work/done" "$images"
  now_ms to
  printf 'lab-vm: images made in %d.%d s:' $(((to - from) / 1000)) $(((to - from) % 1000 / 100))
  for name in gpu-stub kernel rdma-driver initial-ram root-file-system disk; do printf ' %s %d s' "$name" $(($(<"$work/log/$name.ms") / 1000)); done
  echo ", $(du -sh "$images" | cut -f1)"
  rm -rf "$work"
  work=
}
