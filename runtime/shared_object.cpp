// SPDX-License-Identifier: Apache-2.0
#include "shared_object.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace muster::detail {

SharedObject::SharedObject(const char* variable, const char* file, const std::string& advice) : file_(file) {
  if (const char* const other = std::getenv(variable); other != nullptr && *other != '\0') file_ = other;
  handle_ = dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ != nullptr) return;
  const char* const why = dlerror();
  throw Error(ErrorCode::device,
              fmt::format("{}; {}", why != nullptr ? why : file_ + " cannot be loaded", advice));
}

SharedObject::FunctionAddress SharedObject::find_optional(const char* name) const noexcept {
  return {dlsym(handle_, name)};
}

SharedObject::FunctionAddress SharedObject::find(const char* name) const {
  auto const found = find_optional(name);
  if (found.address == nullptr)
    throw Error(ErrorCode::device,
                fmt::format("{} is too old or another library: it has no {}", file_, name));
  return found;
}

}  // namespace muster::detail
