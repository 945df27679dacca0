// SPDX-License-Identifier: Apache-2.0
// The overhead of our call over NCCL's own: bench_nccl_overhead, a world of one rank with one GPU. Times from
// a call to its return, alternating with the raw call on a communicator of the same NCCL and configuration,
// on the same stream and buffers; medians over batches, in microseconds per call. With one rank an in-place
// operation gives NCCL nothing to do, so the time is the call's; out of place NCCL enqueues a copy.
#include <dlfcn.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "muster/muster.hpp"
#include "one_gpu.hpp"

using namespace muster;

namespace {

using Clock = std::chrono::steady_clock;

template <typename Function>
Function* find(void* library, const char* name) {
  auto* const function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("NCCL has no ") + name);
  return function;
}

// NCCL without Muster, but from the same library that libmuster loaded into this process.
class Raw {
 public:
  explicit Raw(int blocking) {
    const char* const file = std::getenv("MUSTER_NCCL_LIBRARY");
    void* const library = dlopen(file != nullptr ? file : "libnccl.so.2", RTLD_NOW);
    if (library == nullptr) throw std::runtime_error(dlerror());
    all_reduce_ = find<decltype(::ncclAllReduce)>(library, "ncclAllReduce");
    state_ = find<decltype(::ncclCommGetAsyncError)>(library, "ncclCommGetAsyncError");
    abort_ = find<decltype(::ncclCommAbort)>(library, "ncclCommAbort");
    ncclUniqueId id;
    require(find<decltype(::ncclGetUniqueId)>(library, "ncclGetUniqueId")(&id));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking;
    require(find<decltype(::ncclCommInitRankConfig)>(library, "ncclCommInitRankConfig")(&comm_, 1, id, 0,
                                                                                        &config));
    wait_until_done();
  }
  ~Raw() { abort_(comm_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  void all_reduce(const float* in, float* out, std::size_t count, cudaStream_t stream) {
    require(all_reduce_(in, out, count, ncclFloat32, ncclSum, comm_, stream));
    wait_until_done();
  }

 private:
  static void require(ncclResult_t result) {
    if (result != ncclSuccess && result != ncclInProgress) throw std::runtime_error("NCCL refused");
    last = result;
  }
  // Waits as a caller of a non-blocking communicator must.
  void wait_until_done() {
    auto const until = Clock::now() + std::chrono::seconds(60);
    while (last == ncclInProgress) {
      if (Clock::now() > until) throw std::runtime_error("NCCL is not ready after 60 s");
      std::this_thread::yield();
      ncclResult_t state = ncclSuccess;
      require(state_(comm_, &state));
      require(state);
    }
  }

  static inline ncclResult_t last = ncclSuccess;
  ncclComm_t comm_ = nullptr;
  decltype(::ncclAllReduce)* all_reduce_ = nullptr;
  decltype(::ncclCommGetAsyncError)* state_ = nullptr;
  decltype(::ncclCommAbort)* abort_ = nullptr;
};

double median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

constexpr int batches = 201;
constexpr int calls = 200;

// The calls of a batch run back to back on one stream, which is empty before.
double measure_batch(cudaStream_t stream, const std::function<void()>& call) {
  one_gpu::check(cudaStreamSynchronize(stream));
  auto const begin = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  std::chrono::duration<double, std::micro> const took = Clock::now() - begin;
  return took.count() / calls;
}

void compare(const char* what, cudaStream_t stream, const std::vector<std::function<void()>>& ways) {
  std::vector<std::vector<double>> times(ways.size());
  for (int batch = 0; batch <= batches; ++batch) {  // the first one warms up
    for (std::size_t way = 0; way < ways.size(); ++way) {
      double const time = measure_batch(stream, ways[way]);
      if (batch > 0) times[way].push_back(time);
    }
  }
  one_gpu::check(cudaStreamSynchronize(stream));
  double const raw = median(times[0]);
  double const raw_non_blocking = median(times[1]);
  double const ours = median(times[2]);
  std::printf("%-28s raw %.3f us  raw, non-blocking %.3f us  muster %.3f us  over non-blocking %+.3f us\n",
              what, raw, raw_non_blocking, ours, ours - raw_non_blocking);
}

int run() {
  auto job = Job::join({.device = Device::cuda});
  if (job.size() != 1) throw std::runtime_error("start it as one rank");
  one_gpu::select_gpu(1, 0);
  auto world = job.world();
  Raw blocking(1);
  Raw non_blocking(0);
  cudaStream_t stream = nullptr;
  one_gpu::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  float* memory = nullptr;
  std::size_t const most = std::size_t{1} << 18;
  one_gpu::check(cudaMalloc(reinterpret_cast<void**>(&memory), 2 * most * sizeof(float)));
  auto const numbers = one_gpu::random_floats(2 * most);
  one_gpu::check(cudaMemcpy(memory, numbers.data(), numbers.size() * sizeof(float), cudaMemcpyHostToDevice));
  std::printf("NCCL %s, %d batches of %d calls each\n", job.roster()[0].nccl_version.c_str(), batches, calls);
  for (std::size_t const count : {std::size_t{1}, most}) {
    for (bool const in_place : {true, false}) {
      float* const out = in_place ? memory : memory + most;
      auto const what =
          std::to_string(count * sizeof(float)) + " bytes, " + (in_place ? "in place" : "out of place");
      compare(what.c_str(), stream,
              {[&] { blocking.all_reduce(memory, out, count, stream); },
               [&] { non_blocking.all_reduce(memory, out, count, stream); },
               [&] {
                 if (in_place)
                   return world.all_reduce(std::span<float>(memory, count), Reduction::sum, stream);
                 world.all_reduce(std::span<const float>(memory, count), std::span<float>(out, count),
                                  Reduction::sum, stream);
               }});
    }
  }
  cudaFree(memory);
  cudaStreamDestroy(stream);
  job.leave();
  return 0;
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a benchmark that is killed leaves what it has measured
  if (one_gpu::count_gpus() == 0) return 77;
  try {
    return run();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
