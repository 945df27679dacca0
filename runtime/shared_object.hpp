// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

#include "muster/error.hpp"

#define MUSTER_TEXT(name) #name
/// A function's name as text, after its header may have renamed it: cuda.h makes cuMemAlloc cuMemAlloc_v2.
#define MUSTER_SYMBOL(name) MUSTER_TEXT(name)

namespace muster::detail {

/// A library that is loaded while the program runs, so that one libmuster works with or without it. Never
/// unloaded: CUDA and NCCL have threads of their own.
class SharedObject {
 public:
  /// `variable`: an environment variable that may name another file.
  /// @throws Error(ErrorCode::device) with the loader's reason and `advice`.
  SharedObject(const char* variable, const char* file, const std::string& advice);

  const std::string& file() const noexcept { return file_; }

  /// Sets `function` to the library's function of that name.
  /// @throws Error(ErrorCode::device) when it has none.
  template <typename Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(address(name));
  }

  /// The same, null when it has none.
  template <typename Function>
  void find_if_there(Function*& function, const char* name) const noexcept {
    function = reinterpret_cast<Function*>(look_up(name));
  }

 private:
  void* address(const char* name) const;
  void* look_up(const char* name) const noexcept;

  std::string file_;
  void* handle_;
};

}  // namespace muster::detail
