// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "muster/error.hpp"
#include "muster/job.hpp"
#include "muster/muster.h"

/// What the handles of the C interface stand for.
struct muster_job {
  muster::Job job;
};
struct muster_communicator {
  muster::Communicator communicator;
};
struct muster_group {
  explicit muster_group(muster::Communicator communicator) : calls(std::move(communicator)) {}
  muster::CallGroup calls;
};

namespace muster::c {

/// Keeps the error for the calling thread; its status.
int keep_error(const Error& error) noexcept;

/// How many errors the calling thread has kept.
std::uint64_t errors_kept() noexcept;
/// The last of them.
Error last_kept();

/// Calls a function of the program's. One in C++ may throw: what is no std::exception becomes one.
template <typename Function, typename... Arguments>
auto call_back(Function* function, Arguments... arguments) {
  try {
    return function(arguments...);
  } catch (const std::exception&) {
    throw;
  } catch (...) {
    throw Error(ErrorCode::system, "a function of the program's threw what is no std::exception");
  }
}

/// Runs `what` with no exception leaving it; the status.
template <typename What>
int call(const What& what) noexcept {
  try {
    what();
    return MUSTER_OK;
  } catch (const Error& error) {
    return keep_error(error);
  } catch (const std::bad_alloc&) {
    return keep_error(Error(ErrorCode::system, "no memory is left on this host for libmuster"));
  } catch (const std::exception& error) {
    return keep_error(Error(ErrorCode::system, error.what()));
  }
}

/// What the handle stands for, in `function`.
template <typename Handle>
Handle& required(Handle* handle, const char* function, const char* what) {
  if (handle == nullptr) throw Error(ErrorCode::usage, std::string(function) + ": the " + what + " is null");
  return *handle;
}

}  // namespace muster::c
