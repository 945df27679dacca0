// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cuda_side_stream.hpp"

namespace muster::compute::cuda {
namespace {

class Position final : public StreamPosition {
 public:
  Position(Gpu& gpu, CUstream stream) : gpu_(gpu), event_(gpu) { event_.record(stream); }
  void block_main() override { event_.block(gpu_.stream()); }
  void wait() override { event_.synchronize("a copy from it"); }

 private:
  Gpu& gpu_;
  Event event_;
};

class CudaPinnedRange final : public PinnedRange {
 public:
  CudaPinnedRange(Gpu& gpu, void* memory, std::size_t bytes)
      : gpu_(gpu),
        memory_(memory),
        is_pinned_(gpu.driver().mem_host_register(memory, bytes, 0) == CUDA_SUCCESS) {}
  ~CudaPinnedRange() override {
    if (is_pinned_ && !gpu_.is_hung()) gpu_.driver().mem_host_unregister(memory_);
  }
  CudaPinnedRange(const CudaPinnedRange&) = delete;
  CudaPinnedRange& operator=(const CudaPinnedRange&) = delete;

 private:
  Gpu& gpu_;
  void* memory_;
  bool is_pinned_;
};

}  // namespace

// A pipeline's next stage waits for what NCCL sends on it: that starts before what computes beside it.
CudaSideStream::CudaSideStream(Gpu& gpu) : gpu_(gpu), main_position_(gpu) {
  const auto& driver = gpu_.driver();
  int least = 0;
  int greatest = 0;
  driver.require(driver.get_stream_priorities(&least, &greatest), "no stream priorities");
  driver.require(driver.stream_create_with_priority(&stream_, CU_STREAM_NON_BLOCKING, greatest), "no stream");
}

CudaSideStream::~CudaSideStream() { gpu_.driver().stream_destroy(stream_); }

void CudaSideStream::wait_for_main() {
  main_position_.record();
  main_position_.block(stream_);
}

void CudaSideStream::download(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  gpu_.driver().require(gpu_.driver().memcpy_to_host(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream_),
                        "a copy from it");
}

void CudaSideStream::upload(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  gpu_.driver().require(
      gpu_.driver().memcpy_to_device(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream_),
      "a copy to it");
}

std::unique_ptr<PinnedRange> CudaSideStream::pin(void* memory, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  return std::make_unique<CudaPinnedRange>(gpu_, memory, bytes);
}

std::unique_ptr<StreamPosition> CudaSideStream::position() {
  return std::make_unique<Position>(gpu_, stream_);
}

}  // namespace muster::compute::cuda
