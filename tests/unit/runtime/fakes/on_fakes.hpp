// SPDX-License-Identifier: Apache-2.0
// A GPU on the fake CUDA and the fake NCCL, and the fake CUDA's log.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "catch.hpp"
#include "communicator/nccl/gpu.hpp"
#include "fakes.hpp"
#include "muster/communicator.hpp"
#include "runtime/communicator/contexts.hpp"

inline int live_cuda_objects() { return call_fake<int>(FAKE_CUDA_FILE, "fake_cuda_live"); }

/// The fake CUDA's log since the last call.
inline std::string cuda_log() {
  std::string const text = call_fake<const char*>(FAKE_CUDA_FILE, "fake_cuda_log");
  call_fake<void>(FAKE_CUDA_FILE, "fake_cuda_forget");
  return text;
}

/// A GPU and its world communicator of one rank.
struct OnFakes {
  explicit OnFakes(const char* nccl = "") : fakes("", nccl) {
    gpu = muster::detail::open_gpu("", 0, "rank 0");
    world.emplace(gpu->world(muster::detail::CommunicatorGroup(make_single_rank_context(), "world"),
                             muster::Deadline(std::chrono::seconds(10))));
  }
  Fakes const fakes;
  std::shared_ptr<muster::detail::Gpu> gpu;
  std::optional<muster::Communicator> world;
};

/// Calls a function of the fake CUDA, which must succeed. Ranks that are threads may call it.
template <typename... Arguments>
void call_cuda(const char* function, Arguments... arguments) {
  void* const found = dlsym(dlopen(FAKE_CUDA_FILE, RTLD_NOW | RTLD_LOCAL), function);
  if (found == nullptr || reinterpret_cast<int (*)(Arguments...)>(found)(arguments...) != 0)
    throw std::runtime_error(std::string(function) + " of the fake CUDA failed");
}

/// A stream other than the default one.
inline muster::Stream create_stream() {
  muster::Stream stream = nullptr;
  constexpr unsigned non_blocking = 1;
  call_cuda("cuStreamCreate", &stream, non_blocking);
  return stream;
}
inline void destroy_stream(muster::Stream stream) { call_cuda("cuStreamDestroy_v2", stream); }

/// The log with each number replaced by a letter, in order of first use; 0 stays.
inline std::string normalize_log(const std::string& log) {
  std::string shape;
  std::map<std::string, char> letters;
  for (std::size_t at = 0; at < log.size();) {
    auto const digits = log.find_first_not_of("0123456789", at) - at;
    if (digits == 0) {
      shape += log[at++];
      continue;
    }
    auto const number = log.substr(at, digits);
    at += digits;
    if (number == "0") {
      shape += '0';
    } else {
      shape += letters.emplace(number, static_cast<char>('a' + letters.size())).first->second;
    }
  }
  return shape;
}
