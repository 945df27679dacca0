# SPDX-License-Identifier: Apache-2.0
# Fake GPUs: device files without a driver, and the NVIDIA driver's files about them in /proc.
#
# Opening an allowed device fails with ENXIO (no driver), a denied one with EPERM, so device isolation can be
# tested.

NVIDIA_MAJOR=195
# Any free number: the real driver gets one from the kernel.
NVIDIA_CAPS_MAJOR=510
# The bus of minor 0, 1, …: deliberately in a different order from the minors, because an index is no
# identity.
GPU_BUSES=(41 01 c1 81 61 21 e1 a1 51 11 d1 91 71 31 f1 b1)

# gpu_uuid LAB NODE MINOR: a UUID derived from the three arguments.
gpu_uuid() {
  local sum
  sum=$(md5sum <<<"stand-in $1 $2 $3")
  printf 'GPU-%s-%s-%s-%s-%s\n' "${sum:0:8}" "${sum:8:4}" "${sum:12:4}" "${sum:16:4}" "${sum:20:12}"
}

# mig_caps GPU INSTANCE: the minors of the /dev/nvidia-caps/nvidia-capN that the instance needs: its GPU
# instance's and its compute instance's. The real driver numbers them in its own way and lists them in
# /proc/driver/nvidia/capabilities.
mig_caps() { printf '%d %d\n' $(($1 * 128 + $2 * 9 + 12)) $(($1 * 128 + $2 * 9 + 13)); }

# make_mig MINOR COUNT: splits a GPU into COUNT instances 1, 2, …, each with one compute instance 0.
make_mig() {
  local minor=$1 instance caps folder
  for ((instance = 1; instance <= $2; instance++)); do
    read -ra caps < <(mig_caps "$minor" "$instance")
    folder=/proc/driver/nvidia/capabilities/gpu$minor/mig/gi$instance
    mkdir -p "$folder/ci0" /dev/nvidia-caps
    printf 'DeviceFileMinor: %d\nDeviceFileMode: 292\nDeviceFileModify: 1\n' "${caps[0]}" >"$folder/access"
    printf 'DeviceFileMinor: %d\nDeviceFileMode: 292\nDeviceFileModify: 1\n' "${caps[1]}" >"$folder/ci0/access"
    mknod -m 444 "/dev/nvidia-caps/nvidia-cap${caps[0]}" c "$NVIDIA_CAPS_MAJOR" "${caps[0]}"
    mknod -m 444 "/dev/nvidia-caps/nvidia-cap${caps[1]}" c "$NVIDIA_CAPS_MAJOR" "${caps[1]}"
  done
}

# make_gpus LAB NODE COUNT MIG: makes /dev/nvidiaN and /proc/driver/nvidia/gpus/ADDRESS/information in this
# node, each GPU with MIG instances.
make_gpus() {
  local lab=$1 node=$2 minor address folder
  mount -n -t tmpfs -o mode=755 lab-driver /proc/driver
  for ((minor = 0; minor < $3; minor++)); do
    address=0000:${GPU_BUSES[minor]}:00.0
    folder=/proc/driver/nvidia/gpus/$address
    mknod -m 666 "/dev/nvidia$minor" c "$NVIDIA_MAJOR" "$minor"
    mkdir -p "$folder"
    # Lines, blanks and order as in the real driver's file.
    {
      printf 'Model: \t\t Lab stand-in GPU\n'
      printf 'IRQ:   \t\t %d\n' $((64 + minor))
      printf 'GPU UUID: \t %s\n' "$(gpu_uuid "$lab" "$node" "$minor")"
      printf 'Video BIOS: \t ??.??.??.??.??\n'
      printf 'Bus Type: \t PCIe\n'
      printf 'DMA Size: \t 47 bits\n'
      printf 'DMA Mask: \t 0x7fffffffffff\n'
      printf 'Bus Location: \t %s\n' "$address"
      printf 'Device Minor: \t %d\n' "$minor"
      printf 'GPU Firmware: \t N/A\n'
      printf 'GPU Excluded:\t No\n'
    } >"$folder/information"
    make_mig "$minor" "$4"
  done
  mount -n -o remount,ro /proc/driver
}
