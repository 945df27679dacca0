// SPDX-License-Identifier: Apache-2.0
#include "data/file_mapping.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <list>
#include <mutex>

#include "muster/error.hpp"

namespace muster::data {
namespace {

/// A mapping as the signal handler sees it. Segments are used again and never freed, so that the handler can
/// walk over them at any time.
struct Segment {
  std::atomic<std::uintptr_t> begin{0};  ///< 0: unused
  std::atomic<std::size_t> size{0};
  std::atomic<bool> is_lost{false};
  std::filesystem::path path{};  ///< not for the handler
  Segment* next = nullptr;
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

std::mutex changes;
std::list<Segment>& segments() {
  static auto& list = *new std::list<Segment>;
  return list;
}
std::atomic<Segment*> first_segment{nullptr};
std::atomic<int> lost_mappings{0};
int mappings = 0;
struct sigaction earlier_action {};

/// Puts zeros into the place of the mapping that holds the address. Async-signal-safe.
bool replace_mapping(std::uintptr_t address) {
  for (Segment* segment = first_segment; segment != nullptr; segment = segment->next) {
    const std::uintptr_t begin = segment->begin;
    const std::size_t size = segment->size;
    if (begin == 0 || begin != segment->begin || address < begin || address - begin >= size) continue;
    if (!segment->is_lost.exchange(true)) ++lost_mappings;
    void* const at = reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr)
    return ::mmap(at, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at;
  }
  return false;
}

extern "C" void handle_bus_error(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const bool is_fault = info->si_code > 0;
  if (!is_fault || !replace_mapping(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    ::sigaction(signal, &earlier_action, nullptr);
    if (!is_fault) ::raise(signal);  // delivered when the handler returns; a fault occurs again by itself
  }
  errno = saved_errno;
}

// Only while there are mappings: Open MPI says on stderr that it found another handler if it starts later.
void install_handler() {
  struct sigaction action {};
  action.sa_sigaction = handle_bus_error;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &earlier_action);
}

void remove_handler() {
  struct sigaction current {};
  if (::sigaction(SIGBUS, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) != 0 &&
      current.sa_sigaction == handle_bus_error)
    ::sigaction(SIGBUS, &earlier_action, nullptr);
}

Segment& take_segment() {
  for (Segment& segment : segments()) {
    if (segment.begin == 0) return segment;
  }
  Segment& segment = segments().emplace_back();
  segment.next = first_segment;
  first_segment = &segment;
  return segment;
}

[[noreturn]] void throw_lost(const Segment& segment) {
  struct stat status {};
  const bool is_shorter =
      ::stat(segment.path.c_str(), &status) == 0 && static_cast<std::size_t>(status.st_size) < segment.size;
  if (!is_shorter) {
    throw Error(ErrorCode::system,
                fmt::format("cannot read {}: {}", segment.path.string(), std::strerror(EIO)));
  }
  throw Error(ErrorCode::usage,
              fmt::format("cannot read {}: it became shorter while the run went on, {} bytes instead of {}",
                          segment.path.string(), status.st_size, segment.size.load()));
}

}  // namespace

FileMapping::FileMapping(int descriptor, std::size_t size, const std::filesystem::path& path) {
  void* const at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (at == MAP_FAILED) {
    throw Error(ErrorCode::system, fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
  }
  bytes_ = {static_cast<const std::uint8_t*>(at), size};
  const std::lock_guard lock(changes);
  Segment& segment = take_segment();
  segment.path = path;
  segment.size = size;
  segment.begin = reinterpret_cast<std::uintptr_t>(at);
  if (mappings++ == 0) install_handler();
}

FileMapping::~FileMapping() {
  const std::lock_guard lock(changes);
  for (Segment& segment : segments()) {
    if (segment.begin != reinterpret_cast<std::uintptr_t>(bytes_.data())) continue;
    segment.begin = 0;
    if (segment.is_lost.exchange(false)) --lost_mappings;
  }
  if (--mappings == 0) remove_handler();
  ::munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

void check_mapped_files() {
  if (lost_mappings == 0) return;
  const std::lock_guard lock(changes);
  for (const Segment& segment : segments()) {
    if (segment.begin != 0 && segment.is_lost) throw_lost(segment);
  }
}

}  // namespace muster::data
