// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "compute/memory.hpp"
#include "muster/communicator.hpp"
#include "muster/sampler.hpp"
#include "shared_memory/shared_segment.hpp"

namespace muster {

/// Memory that the ranks of a node share. All of it is reserved at construction, so that a lack of memory is
/// an error then, and never a SIGBUS later.
class NodeMemory final : public compute::Memory {
 public:
  struct Block {
    std::size_t bytes = 0;
    /// Bytes that lie on this rank's NUMA node. The ranks' parts lie side by side and cover the block.
    Share own;
  };

  /// Collective over `world`, of which `node` has the ranks of `host`. The blocks' sizes are the same on all
  /// of them.
  /// @throws Error(ErrorCode::system), on all ranks and with the same text, when any rank cannot have its
  /// memory.
  NodeMemory(const std::vector<Block>& blocks, Communicator world, Communicator node,
             const std::string& host);

  /// The next block, of this size, which is not allocated twice. It starts on a cache line.
  void* allocate(std::size_t bytes) override;
  void free(void* /*memory*/) noexcept override {}
  bool is_host() const noexcept override { return true; }
  void copy_in(void* to, const void* host, std::size_t bytes) override;
  void copy_out(void* host, const void* from, std::size_t bytes) override { copy_in(host, from, bytes); }

  /// Of all blocks, with the gaps between them.
  std::size_t bytes() const noexcept { return segment_->bytes(); }

 private:
  // Each returns what went wrong, or nothing.
  std::string create(std::size_t total, Communicator& node, const std::string& host);
  std::string reserve(const std::vector<Block>& blocks, const std::string& host);

  std::unique_ptr<SharedSegment> segment_;
  std::vector<std::size_t> sizes_;  ///< of the blocks
  std::size_t next_ = 0;            ///< block
  std::size_t offset_ = 0;          ///< of the next block
};

}  // namespace muster
