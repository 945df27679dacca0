// SPDX-License-Identifier: Apache-2.0
#include "transport/flight_recorder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

namespace muster::control {
namespace {

constexpr std::size_t page_bytes = 4096;

template <std::size_t N>
void copy(std::array<char, N>& to, const char* text) {
  auto const length = std::min(std::strlen(text), N - 1);
  std::memcpy(to.data(), text, length);
  to[length] = 0;
}

// Another process wrote this: turn any bytes into one line of text.
template <std::size_t N>
std::string printable_text(const std::array<char, N>& from) {
  std::string text(from.data(), ::strnlen(from.data(), N));
  for (auto& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return text;
}

struct Content {
  std::array<char, 32> phase;
  std::array<char, 64> operation;
  std::array<char, 64> group;
  std::uint64_t number;
};

std::string printable_text(const Content& content) {
  auto text = "while " + printable_text(content.phase);
  auto const operation = printable_text(content.operation);
  auto const group = printable_text(content.group);
  if (operation.empty()) return text;
  return text + ", last call " +
         (group.empty() ? operation : describe_operation(operation, content.number, group));
}

}  // namespace

std::string describe_operation(const std::string& operation, std::uint64_t number, const std::string& group) {
  if (group.empty()) return operation;
  if (number == 0) return fmt::format("{} (on communicator '{}')", operation, group);
  return fmt::format("{} (operation {} on communicator '{}')", operation, number, group);
}

// A seqlock: a writer makes the sequence odd, writes, and makes it even again. A reader that sees an odd or a
// changed sequence reads again. The words are atomic because threads of this process read them too.
struct FlightRecorder::SharedPage {
  static constexpr std::size_t words = sizeof(Content) / sizeof(std::uint64_t);
  static_assert(sizeof(Content) % sizeof(std::uint64_t) == 0);
  std::atomic<std::uint64_t> sequence;
  std::array<std::atomic<std::uint64_t>, words> content;

  Content load() const {
    std::array<std::uint64_t, words> seen;
    for (std::size_t i = 0; i < words; ++i) seen[i] = content[i].load(std::memory_order_relaxed);
    return std::bit_cast<Content>(seen);
  }

  template <typename Write>
  void update(Write write) {
    auto before = sequence.load(std::memory_order_relaxed);
    do {
      before &= ~std::uint64_t{1};
    } while (!sequence.compare_exchange_weak(before, before + 1, std::memory_order_acq_rel));
    auto const old = load();
    auto changed = old;
    write(changed);
    auto const from = std::bit_cast<std::array<std::uint64_t, words>>(old);
    auto const to = std::bit_cast<std::array<std::uint64_t, words>>(changed);
    // Most calls change only the number.
    for (std::size_t i = 0; i < words; ++i)
      if (from[i] != to[i]) content[i].store(to[i], std::memory_order_release);
    sequence.store(before + 2, std::memory_order_release);
  }

  std::string text() const {
    Content seen{};
    // A process that was killed while it wrote leaves an odd sequence: then use what is there.
    for (int tries = 0; tries < 1000; ++tries) {
      auto const before = sequence.load(std::memory_order_acquire);
      seen = load();
      std::atomic_thread_fence(std::memory_order_acquire);
      if (before % 2 == 0 && sequence.load(std::memory_order_relaxed) == before) break;
    }
    return printable_text(seen);
  }
};

FlightRecorder::FlightRecorder() {
  void* memory = MAP_FAILED;
  descriptor_ = ::memfd_create("muster last call", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor_ >= 0 && ::ftruncate(descriptor_, page_bytes) == 0 &&
      ::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
    memory = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (memory == MAP_FAILED) {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
    memory = ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (memory == MAP_FAILED) throw std::bad_alloc();
  static_assert(sizeof(SharedPage) <= page_bytes && std::atomic<std::uint64_t>::is_always_lock_free);
  page_ = new (memory) SharedPage{};
  enter_phase("joining");
}

FlightRecorder::~FlightRecorder() {
  ::munmap(page_, page_bytes);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FlightRecorder::enter_phase(const char* phase) {
  page_->update([&](Content& content) { copy(content.phase, phase); });
}

void FlightRecorder::enter(const char* operation, const char* group, std::uint64_t number) {
  page_->update([&](Content& content) {
    copy(content.operation, operation);
    copy(content.group, group);
    content.number = number;
  });
}

std::string FlightRecorder::text() const { return page_->text(); }

FlightRecorder::Reader::Reader(const ProcessHandle& process, int descriptor) {
  if (!process || descriptor < 0) return;
  int const file =
      ::open(fmt::format("/proc/{}/fd/{}", process.pid(), descriptor).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  struct stat found {};
  // Reading past the end of a file that was truncated would kill this process (SIGBUS).
  bool const stays_long = (::fcntl(file, F_GET_SEALS) & F_SEAL_SHRINK) != 0;
  if (stays_long && ::fstat(file, &found) == 0 && found.st_size == static_cast<off_t>(page_bytes)) {
    void* const memory = ::mmap(nullptr, page_bytes, PROT_READ, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) page_ = memory;
  }
  ::close(file);
}

FlightRecorder::Reader::~Reader() {
  if (page_ != nullptr) ::munmap(const_cast<void*>(page_), page_bytes);
}

FlightRecorder::Reader::Reader(Reader&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}

FlightRecorder::Reader& FlightRecorder::Reader::operator=(Reader&& other) noexcept {
  std::swap(page_, other.page_);
  return *this;
}

std::string FlightRecorder::Reader::text() const {
  return page_ != nullptr ? static_cast<const SharedPage*>(page_)->text() : "";
}

}  // namespace muster::control
