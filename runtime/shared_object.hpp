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
  /// `variable`: an environment variable that may name another file.
  /// @throws Error(ErrorCode::device) with the loader's reason and `advice`.
  SharedObject(const char* variable, const char* file, const std::string& advice);

  const std::string& file() const noexcept { return file_; }

  /// Sets `function` to the library's function `name`.
  /// @throws Error(ErrorCode::device) when the library has no such function.
  template <typename Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(address(name));
  }

  /// The same, but sets null when the library has no such function.
  template <typename Function>
  void find_optional(Function*& function, const char* name) const noexcept {
    function = reinterpret_cast<Function*>(lookup(name));
  }

 private:
  void* address(const char* name) const;
  void* lookup(const char* name) const noexcept;

  std::string file_;
  void* handle_;
};

}  // namespace muster::detail
