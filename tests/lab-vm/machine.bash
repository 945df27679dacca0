# SPDX-License-Identifier: Apache-2.0
# The machine that QEMU emulates: 2 packages, 4 NUMA domains, 8 cores with 2 threads each; every domain has
# its own PCI host bridge, and below it a switch with one fake GPU and one network card.

VM_DOMAINS=4 VM_CPUS=16
VM_DOMAIN_MEMORY=${MUSTER_VM_DOMAIN_MEMORY:-640} # MiB

# vm_machine: sets the array `machine` to QEMU's arguments.
vm_machine() {
  local d e cpus=$((VM_CPUS / VM_DOMAINS)) distance
  machine=(-machine q35 -m $((VM_DOMAIN_MEMORY * VM_DOMAINS))
    # Two dies in each of two packages, two cores to a die, two threads to a core.
    -smp "$VM_CPUS,sockets=2,dies=$((VM_DOMAINS / 2)),cores=$((cpus / 2)),threads=2"
    # By default QEMU presents an AMD processor here, and the kernel does not see its dies and threads.
    -cpu "max,vendor=GenuineIntel")
  for ((d = 0; d < VM_DOMAINS; d++)); do
    machine+=(
      -object "memory-backend-ram,id=memory$d,size=${VM_DOMAIN_MEMORY}M"
      -numa "node,nodeid=$d,cpus=$((d * cpus))-$((d * cpus + cpus - 1)),memdev=memory$d"
      -device "pxb-pcie,id=bridge$d,bus=pcie.0,bus_nr=$((20 + 28 * d)),numa_node=$d"
      -device "pcie-root-port,id=root$d,bus=bridge$d,chassis=$((10 + d)),slot=0"
      -device "x3130-upstream,id=switch$d,bus=root$d"
      -device "xio3130-downstream,id=to_gpu$d,bus=switch$d,chassis=$((100 + d)),slot=0"
      -device "gpu-stub,bus=to_gpu$d"
      -device "xio3130-downstream,id=to_nic$d,bus=switch$d,chassis=$((200 + d)),slot=1"
      # The cards are connected to one hub inside QEMU; no packet leaves it.
      -netdev "hubport,id=net$d,hubid=0"
      -device "e1000e,bus=to_nic$d,netdev=net$d,romfile=,mac=52:54:00:00:0$d:01")
  done
  for ((d = 0; d < VM_DOMAINS; d++)); do
    for ((e = 0; e < VM_DOMAINS; e++)); do
      distance=32
      ((d / 2 != e / 2)) || distance=12
      ((d != e)) || distance=10
      machine+=(-numa "dist,src=$d,dst=$e,val=$distance")
    done
  done
}

# vm_disks IMAGES STATE: adds disks, console and the agent's channel to `machine`.
vm_disks() {
  machine+=(
    -kernel "$1/vmlinuz" -initrd "$1/initrd.img"
    -append "console=ttyS0 tsc=unstable nowatchdog mitigations=off loglevel=4 net.ifnames=0 systemd.unit=lab.target systemd.show_status=0 panic=-1 ${MUSTER_VM_KERNEL_ARGUMENTS:-}"
    # All runs share the image: this run's writes go to a temporary file.
    -drive "file=$1/root.img,format=raw,if=none,id=root,snapshot=on,cache=unsafe"
    -device "virtio-blk-pci,drive=root,bus=pcie.0,addr=0x10"
    -drive "file=$2/carried.tar,format=raw,if=none,id=carried,readonly=on"
    -device "virtio-blk-pci,drive=carried,bus=pcie.0,addr=0x11"
    -nodefaults -display none -no-reboot -monitor none -serial "file:$2/console" -serial "pipe:$2/agent")
}
