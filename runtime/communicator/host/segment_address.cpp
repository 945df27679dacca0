// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/segment_address.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace muster::detail {

bool shared_memory_enabled() {
  const char* const value = std::getenv("MUSTER_SHARED_MEMORY");
  return value == nullptr || std::string_view(value) != "off";
}

SegmentAddress make_address(const SharedSegment* segment) {
  if (segment == nullptr) return {};
  auto const& handle = segment->handle();
  return {getpid(), handle.descriptor, static_cast<std::int64_t>(handle.device),
          static_cast<std::int64_t>(handle.inode)};
}

std::unique_ptr<SharedSegment> open_segment(const SegmentAddress& address, std::size_t bytes) {
  if (address[0] == 0) return nullptr;
  SharedSegment::Handle const handle{static_cast<int>(address[1]),
                                     static_cast<unsigned long long>(address[2]),
                                     static_cast<unsigned long long>(address[3])};
  return SharedSegment::open(static_cast<pid_t>(address[0]), handle, bytes);
}

}  // namespace muster::detail
