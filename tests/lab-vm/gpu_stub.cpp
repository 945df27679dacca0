// SPDX-License-Identifier: Apache-2.0
// Preloaded into QEMU: registers a PCI device "gpu-stub", which a guest's kernel takes for an NVIDIA 3D
// controller. QEMU has no option for a device's vendor, but Debian's exports the functions by which it
// registers its own. The rest is QEMU's bochs-display. The ids are false on purpose: there is no such GPU
// here, only its place in the PCI tree.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// QEMU's interface, as its include/qom/object.h and include/qemu/module.h (7.2 to 10.0) lay it out.
struct TypeInfo {
  const char* name;
  const char* parent;
  std::size_t instance_size, instance_align;
  void (*instance_hooks[3])(void*);
  bool is_abstract;
  std::size_t class_size;
  void (*class_init)(void* type_class, void* data);
  void (*class_base_init)(void*, void*);
  void* class_data;
  void* interfaces;
};
constexpr int module_init_qom = 3;
// Weak: a child process of QEMU, or a shell that was given the preload too, must start without them.
extern "C" __attribute__((weak)) void* type_register_static(const TypeInfo* info);
extern "C" __attribute__((weak)) void register_module_init(void (*init)(), int kind);

namespace {

// The identity within PCIDeviceClass (include/hw/pci/pci_device.h).
struct Identity {
  std::uint16_t vendor, device;
  std::uint8_t revision, padding;
  std::uint16_t device_class, subsystem_vendor, subsystem;
};
constexpr Identity bochs_display = {0x1234, 0x1111, 0, 0, 0x0380, 0, 0};
constexpr Identity stand_in_gpu = {0x10de, 0x20b0, 0xa1, 0, 0x0302, 0x10de, 0x134f};

// More than QEMU's own class needs: what we search is then ours to search.
constexpr std::size_t class_size = 2048;

// Where the identity lies in the class depends on the version of QEMU, so it is looked for and must be there
// exactly once.
void become_gpu(void* type_class, void*) {
  auto* bytes = static_cast<unsigned char*>(type_class);
  unsigned char* found = nullptr;
  int times = 0;
  for (std::size_t at = 0; at + sizeof(Identity) <= class_size; at += alignof(Identity)) {
    Identity here;
    std::memcpy(&here, bytes + at, sizeof here);
    if (here.vendor != bochs_display.vendor || here.device != bochs_display.device ||
        here.device_class != bochs_display.device_class)
      continue;
    found = bytes + at;
    ++times;
  }
  if (times != 1) {
    std::fprintf(stderr, "gpu-stub: this QEMU keeps a device's ids elsewhere (found %d times)\n", times);
    std::exit(90);
  }
  std::memcpy(found, &stand_in_gpu, sizeof stand_in_gpu);
}

void register_gpu() {
  static TypeInfo type{};
  type.name = "gpu-stub";
  type.parent = "bochs-display";
  type.class_size = class_size;
  type.class_init = become_gpu;
  type_register_static(&type);
}

__attribute__((constructor)) void announce() {
  if (register_module_init != nullptr) register_module_init(register_gpu, module_init_qom);
}

}  // namespace
