// SPDX-License-Identifier: Apache-2.0
// A fake NVML that knows one GPU's fabric. Its behaviour is selected by
//   FAKE_NVML         "hang" (nvmlInit never returns), "no_init" (nvmlInit fails), "no_device", "old" (only
//                     the first version of the fabric information)
//   FAKE_NVML_FABRIC  "STATE STATUS CLIQUE CLUSTER HEALTH": numbers; CLUSTER is the byte that fills the UUID
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int invalid_argument = 2, not_supported = 3, not_found = 6, version_mismatch = 25;

bool is_mode(const char* what) {
  const char* const value = std::getenv("FAKE_NVML");
  return value != nullptr && std::string(value) == what;
}

struct Fabric {
  unsigned state = 0, status = 0, clique = 0, cluster = 0, health = 0;
};

Fabric fabric() {
  Fabric fabric_info;
  if (const char* const text = std::getenv("FAKE_NVML_FABRIC"))
    std::sscanf(text, "%u %u %u %u %u", &fabric_info.state, &fabric_info.status, &fabric_info.clique,
                &fabric_info.cluster, &fabric_info.health);
  return fabric_info;
}

// The byte layout of nvml.h.
void write_first(unsigned char* at, const Fabric& fabric_info) {
  std::memset(at, static_cast<int>(fabric_info.cluster), 16);
  std::memcpy(at + 16, &fabric_info.status, 4);
  std::memcpy(at + 20, &fabric_info.clique, 4);
  at[24] = static_cast<unsigned char>(fabric_info.state);
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  while (is_mode("hang")) pause();
  return is_mode("no_init") ? 9 : 0;
}

int nvmlShutdown() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  static int the_device = 0;
  if (is_mode("no_device") || std::strlen(address) < 12) return not_found;
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
  if (is_mode("old")) return not_supported;
  unsigned version = 0;
  std::memcpy(&version, info, 4);
  if (version != 0x02000024) return version_mismatch;
  auto const fabric_info = fabric();
  write_first(info + 4, fabric_info);
  std::memcpy(info + 32, &fabric_info.health, 4);
  return 0;
}
}
