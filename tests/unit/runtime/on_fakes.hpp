// SPDX-License-Identifier: Apache-2.0
// A GPU on the test doubles of CUDA and NCCL, and what the double of CUDA wrote down.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "catch.hpp"
#include "communicator/nccl/gpu.hpp"
#include "contexts.hpp"
#include "fakes.hpp"
#include "muster/communicator.hpp"

inline int cuda_live() { return ask<int>(FAKE_CUDA_FILE, "fake_cuda_live"); }

/// Since the last call.
inline std::string cuda_log() {
  std::string const text = ask<const char*>(FAKE_CUDA_FILE, "fake_cuda_log");
  ask<void>(FAKE_CUDA_FILE, "fake_cuda_forget");
  return text;
}

/// The GPU and its world of one.
struct OnFakes {
  explicit OnFakes(const char* nccl = "") : fakes("", nccl) {
    gpu = muster::detail::open_gpu("", 0, "rank 0");
    world.emplace(gpu->world(muster::detail::CommunicatorGroup(context_alone(), "world"),
                             muster::Deadline(std::chrono::seconds(10))));
  }
  Fakes const fakes;
  std::shared_ptr<muster::detail::Gpu> gpu;
  std::optional<muster::Communicator> world;
};

/// A stream of the program's, beside the default one.
inline muster::Stream new_stream() {
  void* const make = dlsym(dlopen(FAKE_CUDA_FILE, RTLD_NOW | RTLD_LOCAL), "cuStreamCreate");
  muster::Stream stream = nullptr;
  constexpr unsigned non_blocking = 1;
  REQUIRE(reinterpret_cast<int (*)(muster::Stream*, unsigned)>(make)(&stream, non_blocking) == 0);
  return stream;
}
inline void end_stream(muster::Stream stream) {
  void* const end = dlsym(dlopen(FAKE_CUDA_FILE, RTLD_NOW | RTLD_LOCAL), "cuStreamDestroy_v2");
  REQUIRE(reinterpret_cast<int (*)(muster::Stream)>(end)(stream) == 0);
}

/// The parts of a log, with numbers replaced by letters in the order in which they come.
inline std::string shape_of(const std::string& log) {
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
