// SPDX-License-Identifier: Apache-2.0
#include "shared_object.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace muster::detail {
namespace {

std::string file_to_load(const char* variable, const char* file) {
  const char* const other = std::getenv(variable);
  return other != nullptr && *other != '\0' ? other : file;
}

}  // namespace

bool SharedObject::is_loaded(const char* variable, const char* file) {
  return dlopen(file_to_load(variable, file).c_str(), RTLD_LAZY | RTLD_NOLOAD) != nullptr;
}

SharedObject::SharedObject(const char* variable, const char* file, const std::string& advice, ErrorCode code,
                           int scope)
    : file_(file_to_load(variable, file)), code_(code) {
  handle_ = dlopen(file_.c_str(), RTLD_NOW | scope);
  if (handle_ != nullptr) {
    // The program or a preloaded tool may define functions of the library, as profilers of MPI do.
    if (scope == RTLD_GLOBAL) handle_ = RTLD_DEFAULT;
    return;
  }
  const char* const why = dlerror();
  throw Error(code, fmt::format("{}; {}", why != nullptr ? why : file_ + " cannot be loaded", advice));
}

SharedObject::FunctionAddress SharedObject::find_optional(const char* name) const noexcept {
  return {dlsym(handle_, name)};
}

SharedObject::FunctionAddress SharedObject::find(const char* name) const {
  auto const found = find_optional(name);
  if (found.address == nullptr)
    throw Error(code_, fmt::format("{} is too old or another library: it has no {}", file_, name));
  return found;
}

}  // namespace muster::detail
