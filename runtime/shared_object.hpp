// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

#include "muster/error.hpp"

#define MUSTER_TEXT(name) #name
/// A function's name as text, after its header may have renamed it: cuda.h defines cuMemAlloc as
/// cuMemAlloc_v2.
#define MUSTER_SYMBOL(name) MUSTER_TEXT(name)

namespace muster::detail {

/// A library that is loaded at run time, so that one libmuster works with or without it. Never unloaded: CUDA
/// and NCCL have threads of their own.
class SharedObject {
 public:
  /// `variable`: an environment variable that may name another file. `scope`: RTLD_LOCAL or RTLD_GLOBAL.
  /// @throws Error(code) with the loader's reason and `advice`.
  SharedObject(const char* variable, const char* file, const std::string& advice,
               ErrorCode code = ErrorCode::device, int scope = RTLD_LOCAL);

  /// Whether the program has already loaded it.
  static bool is_loaded(const char* variable, const char* file);

  const std::string& file() const noexcept { return file_; }

  /// A function of the library. It becomes a pointer of the type that it is assigned to.
  struct FunctionAddress {
    void* address;
    template <typename Function>
    operator Function*() const noexcept {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<Function*>(address);
    }
  };
  /// @throws Error when the library has no such function.
  FunctionAddress find(const char* name) const;
  /// Null when the library has no such function.
  FunctionAddress find_optional(const char* name) const noexcept;

  /// An object of the library. It becomes a pointer of the type that it is assigned to.
  struct DataAddress {
    void* address;
    template <typename Object>
    operator Object*() const noexcept {  // NOLINT(google-explicit-constructor)
      return static_cast<Object*>(address);
    }
  };
  /// @throws Error when the library has no such object.
  DataAddress find_data(const char* name) const { return {find(name).address}; }

 private:
  std::string file_;
  ErrorCode code_;
  void* handle_;
};

}  // namespace muster::detail
