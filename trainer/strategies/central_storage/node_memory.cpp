// SPDX-License-Identifier: Apache-2.0
#include "strategies/central_storage/node_memory.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "compute/arena.hpp"
#include "machine/gather_texts.hpp"
#include "muster/error.hpp"
#include "report/format_bytes.hpp"

namespace muster {
namespace {

std::size_t round_to_lines(std::size_t bytes) { return compute::aligned_count<std::byte>(bytes); }

/// The creator's process id and SharedSegment::Handle; all zero if it has no memory to share.
using SegmentAddress = std::array<std::int64_t, 4>;

SegmentAddress address_of(const SharedSegment& segment) {
  const SharedSegment::Handle& handle = segment.handle();
  return {::getpid(), handle.descriptor, static_cast<std::int64_t>(handle.device),
          static_cast<std::int64_t>(handle.inode)};
}

std::unique_ptr<SharedSegment> open_segment(const SegmentAddress& address, std::size_t bytes) {
  return SharedSegment::open(static_cast<pid_t>(address[0]),
                             {static_cast<int>(address[1]), static_cast<unsigned long long>(address[2]),
                              static_cast<unsigned long long>(address[3])},
                             bytes);
}

}  // namespace

NodeMemory::NodeMemory(const std::vector<Block>& blocks, Communicator world, Communicator node,
                       const std::string& host) {
  std::size_t total = 0;
  for (const Block& block : blocks) {
    sizes_.push_back(block.bytes);
    total += round_to_lines(block.bytes);
  }
  std::string problem = create(total, node, host);
  if (segment_) problem = reserve(blocks, host);
  for (const std::string& text : gather_texts(world, problem)) {
    if (!text.empty()) throw Error(ErrorCode::system, text);
  }
  segment_->close_descriptor();
}

std::string NodeMemory::create(std::size_t total, Communicator& node, const std::string& host) {
  SegmentAddress address{};
  if (node.rank() == 0) {
    segment_ = SharedSegment::create(total);
    const int error = errno;
    if (segment_) address = address_of(*segment_);
    node.broadcast(address, 0);
    return segment_ ? ""
                    : fmt::format(
                          "the ranks on {} cannot share {} of memory: {}: use a smaller model or "
                          "--strategy=data-parallel",
                          host, format_bytes(total), std::strerror(error));
  }
  node.broadcast(address, 0);
  if (address[0] == 0) return "";
  segment_ = open_segment(address, total);
  return segment_ ? ""
                  : fmt::format(
                        "a rank on {} cannot open the memory of another one there: {}: start the "
                        "ranks as one user and in one container, or pass --strategy=data-parallel",
                        host, std::strerror(errno));
}

std::string NodeMemory::reserve(const std::vector<Block>& blocks, const std::string& host) {
  std::size_t offset = 0;
  for (const Block& block : blocks) {
    if (!segment_->reserve(offset + block.own.begin, block.own.count())) {
      return fmt::format(
          "{} has not enough memory for the {} that its ranks share: {}: use a smaller model "
          "or more hosts",
          host, format_bytes(bytes()), std::strerror(errno));
    }
    offset += round_to_lines(block.bytes);
  }
  return "";
}

void* NodeMemory::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  while (next_ < sizes_.size() && sizes_[next_] == 0) ++next_;
  if (next_ == sizes_.size() || sizes_[next_] != bytes)
    throw std::logic_error("a block of another size was reserved");
  std::byte* const memory = segment_->data() + offset_;
  offset_ += round_to_lines(sizes_[next_++]);
  return memory;
}

void NodeMemory::copy_in(void* to, const void* host, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, host, bytes);
}

}  // namespace muster
