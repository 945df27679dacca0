// SPDX-License-Identifier: Apache-2.0
// Access to the fake CUDA and the fake NCCL from tests.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "runtime/scenarios/errors.hpp"

// Environment variables that select the fakes.
struct Fakes {
  explicit Fakes(const char* cuda = "", const char* nccl = "") {
    setenv("MUSTER_CUDA_LIBRARY", FAKE_CUDA_FILE, 1);
    setenv("MUSTER_NCCL_LIBRARY", FAKE_NCCL_FILE, 1);
    setenv("FAKE_CUDA", cuda, 1);
    setenv("FAKE_NCCL", nccl, 1);
    setenv("NCCL_RUNTIME_CONNECT", "0", 1);  // ranks that are threads do not change the environment
  }
  ~Fakes() {
    for (const char* name :
         {"MUSTER_CUDA_LIBRARY", "MUSTER_NCCL_LIBRARY", "FAKE_CUDA", "FAKE_NCCL", "NCCL_RUNTIME_CONNECT"})
      unsetenv(name);
  }
  Fakes(const Fakes&) = delete;
  Fakes& operator=(const Fakes&) = delete;
};

template <typename Result>
Result call_fake(const char* file, const char* function) {
  void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle != nullptr);
  void* const found = dlsym(handle, function);
  REQUIRE(found != nullptr);
  return reinterpret_cast<Result (*)()>(found)();
}
inline int nccl_count(const char* function) { return call_fake<int>(FAKE_NCCL_FILE, function); }
// The NCCL operations since the last call.
inline std::string journal() { return call_fake<const char*>(FAKE_NCCL_FILE, "fake_nccl_journal"); }
