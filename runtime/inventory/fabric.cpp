// SPDX-License-Identifier: Apache-2.0
#include "inventory/fabric.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string_view>

#include "log.hpp"
#include "shared_object.hpp"

namespace muster::bootstrap {
namespace {

// nvmlGpuFabricInfo_v2_t of nvml.h, and its first version, which has the same fields up to the health. The
// driver ships no header, and these layouts never change: a new layout gets a new version.
struct InfoV1 {
  std::array<unsigned char, 16> cluster{};
  int status = 0;
  unsigned clique = 0;
  unsigned char state = 0;
};
struct InfoV2 {
  unsigned version = sizeof(InfoV2) | (2U << 24);
  InfoV1 first;
  unsigned health = 0;
};
static_assert(sizeof(InfoV1) == 28 && sizeof(InfoV2) == 36);

using Device = void*;
constexpr int success = 0;

class Nvml {
 public:
  Nvml() {
    if (int const result = init_(); result != success)
      throw Error(ErrorCode::device, fmt::format("nvmlInit: error {}", result));
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml() { shutdown_(); }

  // Drivers before 545 support only the first version, which has no health.
  InfoV2 query_fabric(const std::string& pci_address) const {
    Device device = nullptr;
    if (int const result = device_at_(pci_address.c_str(), &device); result != success)
      throw Error(ErrorCode::device, fmt::format("nvmlDeviceGetHandleByPciBusId: error {}", result));
    InfoV2 info;
    int result = fabric_ != nullptr ? fabric_(device, &info) : -1;
    if (result != success && fabric_v1_ != nullptr) {
      info = InfoV2();
      result = fabric_v1_(device, &info.first);
    }
    if (result != success)
      throw Error(ErrorCode::device, fmt::format("no fabric information: error {}", result));
    return info;
  }

 private:
  detail::SharedObject object_{"MUSTER_NVML_LIBRARY", "libnvidia-ml.so.1",
                               "is the NVIDIA driver installed on this node?"};
  int (*init_)() = object_.find("nvmlInit_v2");
  int (*shutdown_)() = object_.find("nvmlShutdown");
  int (*device_at_)(const char*, Device*) = object_.find("nvmlDeviceGetHandleByPciBusId_v2");
  int (*fabric_v1_)(Device, InfoV1*) = object_.find_optional("nvmlDeviceGetGpuFabricInfo");
  int (*fabric_)(Device, InfoV2*) = object_.find_optional("nvmlDeviceGetGpuFabricInfoV");
};

// Two bits for each kind of issue, with 1 for "true" (NVML_GPU_FABRIC_HEALTH_MASK_*), and four bits for the
// fabric's configuration, with 0 and 1 for "correct".
std::string describe_health(unsigned health) {
  std::string text;
  auto const add = [&](const char* name) { text += (text.empty() ? "" : ", ") + std::string(name); };
  constexpr std::array names{"degraded bandwidth", "route in recovery", "unhealthy route",
                             "recovery from an access timeout"};
  for (std::size_t i = 0; i < names.size(); ++i)
    if ((health >> (2 * i) & 3U) == 1) add(names[i]);
  if ((health >> 8 & 15U) > 1) add("incorrect configuration");
  return text;
}

Fabric::State parse_state(unsigned char state) {
  constexpr std::array states{Fabric::State::unsupported, Fabric::State::not_started,
                              Fabric::State::in_progress, Fabric::State::completed};
  return state < states.size() ? states[state] : Fabric::State::unknown;
}

// Errors here do not fail the job: NCCL reports them itself if they matter.
Fabric query_nvml(const std::string& pci_address) {
  Fabric fabric;
  try {
    auto const info = Nvml().query_fabric(pci_address);
    fabric.state = parse_state(info.first.state);
    if (fabric.state != Fabric::State::completed) return fabric;
    fabric.status = info.first.status;
    fabric.clique = static_cast<int>(info.first.clique & 0x7fffffffU);
    fabric.health_issues = describe_health(info.health);
    auto const zero = [](unsigned char byte) { return byte == 0; };
    if (std::all_of(info.first.cluster.begin(), info.first.cluster.end(), zero)) return fabric;
    for (unsigned const byte : info.first.cluster) fabric.cluster += fmt::format("{:02x}", byte);
  } catch (const Error& error) {
    log::debug("join: the NVLink fabric of GPU {} is not known: {}", pci_address, error.what());
  }
  return fabric;
}

}  // namespace

Fabric read_fabric(const std::string& pci_address, const Deadline& deadline) {
  return read_bounded([pci_address] { return query_nvml(pci_address); }, deadline).value_or(Fabric());
}

std::vector<int> imex_channels(const std::string& root) {
  constexpr std::string_view prefix = "channel";
  std::vector<int> channels;
  auto const folder = root + "/dev/nvidia-caps-imex-channels";
  auto const close = [](DIR* opened) { closedir(opened); };
  std::unique_ptr<DIR, decltype(close)> const opened(opendir(folder.c_str()), close);
  while (const dirent* entry = opened ? readdir(opened.get()) : nullptr) {
    std::string_view const name = entry->d_name;
    if (!name.starts_with(prefix)) continue;
    int number = -1;
    auto const [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
    bool const is_channel = error == std::errc{} && end == name.data() + name.size() && number >= 0;
    // access() also checks the device cgroup.
    if (is_channel && access((folder + "/" + std::string(name)).c_str(), R_OK) == 0)
      channels.push_back(number);
  }
  std::sort(channels.begin(), channels.end());
  return channels;
}

}  // namespace muster::bootstrap
