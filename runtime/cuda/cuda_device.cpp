// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

namespace muster::detail {
namespace {

std::string to_lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void require(const CudaLibrary& cuda, CUresult result) {
  if (result != CUDA_SUCCESS) throw Error(ErrorCode::device, "CUDA says: " + cuda.reason(result));
}

std::string format_uuid(const CUuuid& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

CudaDevice query_device(const CudaLibrary& cuda, int ordinal) {
  CudaDevice device;
  require(cuda, cuda.device_get(&device.handle, ordinal));
  std::array<char, 64> bus{};
  require(cuda, cuda.device_get_pci_bus_id(bus.data(), static_cast<int>(bus.size()), device.handle));
  device.pci_address = canonical_pci(bus.data());
  CUuuid uuid{};
  require(cuda, cuda.device_get_uuid(&uuid, device.handle));
  device.uuid = format_uuid(uuid);
  return device;
}

// Compares the text after the first dash: Slurm and NVML write a MIG instance's UUID as "MIG-…", and CUDA
// does not return the kind.
bool same_uuid(const std::string& a, const std::string& b) {
  auto const tail = [](const std::string& text) {
    return to_lower(text.substr(std::min(text.find('-'), text.size())));
  };
  return a.find('-') != std::string::npos && tail(a) == tail(b);
}

}  // namespace

std::string canonical_pci(const std::string& address) {
  for (auto const& text : {address, "0000:" + address}) {
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned slot = 0;
    unsigned function = 0;
    int used = 0;
    if (std::sscanf(text.c_str(), "%x:%x:%x.%x%n", &domain, &bus, &slot, &function, &used) == 4 &&
        used == static_cast<int>(text.size()))
      return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, bus, slot, function);
  }
  return to_lower(address);
}

CudaDevice find_device(const CudaLibrary& cuda, const std::string& placed_gpu, int local_rank) {
  require(cuda, cuda.init(0));
  int count = 0;
  require(cuda, cuda.device_get_count(&count));
  if (count == 0) throw Error(ErrorCode::device, "CUDA shows no GPU to this process");
  if (placed_gpu.empty()) {
    // A single visible GPU is this rank's own, whatever its local rank.
    int const ordinal = count == 1 ? 0 : local_rank;
    if (ordinal >= count) {
      throw Error(
          ErrorCode::device,
          fmt::format("CUDA shows {} GPUs to local rank {}: start one task per GPU", count, local_rank));
    }
    return query_device(cuda, ordinal);
  }
  std::string visible;
  auto const target = canonical_pci(placed_gpu);
  for (int i = 0; i < count; ++i) {
    auto device = query_device(cuda, i);
    if (device.pci_address == target || same_uuid(placed_gpu, device.uuid)) return device;
    visible += (i == 0 ? "" : ", ") + device.pci_address;
  }
  throw Error(
      ErrorCode::device,
      fmt::format("CUDA shows only {} to this process (CUDA_VISIBLE_DEVICES, device cgroup)", visible));
}

}  // namespace muster::detail
