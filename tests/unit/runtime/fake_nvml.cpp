// SPDX-License-Identifier: Apache-2.0
// A fake NVML that knows one GPU's fabric. What it says is chosen with
//   FAKE_NVML         "hang" (nvmlInit never returns), "no_init" (it fails), "no_device", "old" (the first
//   version
//                     of the fabric's information only)
//   FAKE_NVML_FABRIC  "STATE STATUS CLIQUE CLUSTER HEALTH": numbers, CLUSTER being the byte that fills the
//   UUID
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int invalid_argument = 2, not_supported = 3, not_found = 6, version_mismatch = 25;

bool wished(const char* what) {
  const char* const value = std::getenv("FAKE_NVML");
  return value != nullptr && std::string(value) == what;
}

struct Fabric {
  unsigned state = 0, status = 0, clique = 0, cluster = 0, health = 0;
};

Fabric fabric() {
  Fabric said;
  if (const char* const text = std::getenv("FAKE_NVML_FABRIC"))
    std::sscanf(text, "%u %u %u %u %u", &said.state, &said.status, &said.clique, &said.cluster, &said.health);
  return said;
}

// Byte by byte, as nvml.h lays it out.
void write_first(unsigned char* at, const Fabric& said) {
  std::memset(at, static_cast<int>(said.cluster), 16);
  std::memcpy(at + 16, &said.status, 4);
  std::memcpy(at + 20, &said.clique, 4);
  at[24] = static_cast<unsigned char>(said.state);
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  while (wished("hang")) pause();
  return wished("no_init") ? 9 : 0;
}

int nvmlShutdown() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  static int the_device = 0;
  if (wished("no_device") || std::strlen(address) < 12) return not_found;
  *device = &the_device;
  return 0;
}

int nvmlDeviceGetGpuFabricInfo(void* device, unsigned char* info) {
  if (device == nullptr || info == nullptr) return invalid_argument;
  write_first(info, fabric());
  return 0;
}

int nvmlDeviceGetGpuFabricInfoV(void* device, unsigned char* info) {
  if (device == nullptr || info == nullptr) return invalid_argument;
  if (wished("old")) return not_supported;
  unsigned version = 0;
  std::memcpy(&version, info, 4);
  if (version != 0x02000024) return version_mismatch;
  auto const said = fabric();
  write_first(info + 4, said);
  std::memcpy(info + 32, &said.health, 4);
  return 0;
}
}
