// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "compute/cuda/gpu.hpp"
#include "compute/side_stream.hpp"

namespace muster::compute::cuda {

/// A second stream of a GPU. The GPU outlives it.
class CudaSideStream final : public SideStream {
 public:
  explicit CudaSideStream(Gpu& gpu);
  ~CudaSideStream() override;
  CudaSideStream(const CudaSideStream&) = delete;
  CudaSideStream& operator=(const CudaSideStream&) = delete;

  Stream stream() const override { return stream_; }
  void wait_for_main() override;
  void download(void* to, const void* from, std::size_t bytes) override;
  void upload(void* to, const void* from, std::size_t bytes) override;
  std::unique_ptr<PinnedRange> pin(void* memory, std::size_t bytes) override;
  std::unique_ptr<StreamPosition> position() override;

 private:
  Gpu& gpu_;
  CUstream stream_ = nullptr;
  Event main_position_;
};

}  // namespace muster::compute::cuda
