// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>

#include "muster/error.hpp"
#include "muster/job.hpp"
#include "muster/muster.h"

/// The objects behind the handles of the C interface.
struct muster_job {
  muster::Job job;
};
struct muster_communicator {
  void run(const muster::detail::CollectiveCall& call, muster::Stream stream) {
    communicator.run(call, stream);
  }

  muster::Communicator communicator;
  std::optional<double> factor = {};  // of MUSTER_PREMUL_SUM
};
struct muster_work {
  muster::Work work;
};
struct muster_group {
  explicit muster_group(muster::Communicator communicator) : calls(std::move(communicator)) {}
  muster::CallGroup calls;
};

namespace muster::c {

/// Stores the error for the calling thread and returns its status.
int record_error(const Error& error) noexcept;

/// Number of errors that the calling thread has stored.
std::uint64_t error_count() noexcept;
/// The last of these errors.
Error last_recorded_error();

/// Calls a function of the program. A C++ function may throw; an exception that is not a std::exception
/// becomes an Error.
template <typename Function, typename... Arguments>
auto call_back(Function* function, Arguments... arguments) {
  try {
    return function(arguments...);
  } catch (const std::exception&) {
    throw;
  } catch (...) {
    throw Error(ErrorCode::system, "a function of the program threw something that is not a std::exception");
  }
}

/// Runs `what`, lets no exception out, and returns the status.
template <typename What>
int call(const What& what) noexcept {
  try {
    what();
    return MUSTER_OK;
  } catch (const Error& error) {
    return record_error(error);
  } catch (const std::bad_alloc&) {
    return record_error(Error(ErrorCode::system, "no memory is left on this host for libmuster"));
  } catch (const std::exception& error) {
    return record_error(Error(ErrorCode::system, error.what()));
  }
}

/// The object behind the handle; throws an Error naming `function` and `what` when it is null.
template <typename Handle>
Handle& require_not_null(Handle* handle, const char* function, const char* what) {
  if (handle == nullptr) throw Error(ErrorCode::usage, std::string(function) + ": the " + what + " is null");
  return *handle;
}

}  // namespace muster::c
