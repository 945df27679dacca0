// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cuda_side_stream.hpp"

namespace muster::compute::cuda {
namespace {

class Position final : public StreamPosition {
 public:
  Position(Gpu& gpu, CUstream stream) : gpu_(gpu), event_(gpu) { event_.record(stream); }
  void block_main() override { event_.block(gpu_.stream()); }
  void wait() override { event_.synchronize(); }

 private:
  Gpu& gpu_;
  Event event_;
};

}  // namespace

CudaSideStream::CudaSideStream(Gpu& gpu) : gpu_(gpu), main_position_(gpu) {
  gpu_.driver().require(gpu_.driver().stream_create(&stream_, CU_STREAM_NON_BLOCKING), "no stream");
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

std::unique_ptr<StreamPosition> CudaSideStream::position() {
  return std::make_unique<Position>(gpu_, stream_);
}

}  // namespace muster::compute::cuda
