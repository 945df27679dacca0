// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include "muster/export.hpp"

namespace muster {

/// Kinds of errors, by what a caller can do about them. Each maps to one process exit code (exit_code()).
enum class ErrorCode {
  usage,        ///< The caller passed invalid arguments (bad rank, sizes that do not match).
  environment,  ///< The job was started in a way that cannot work (several tasks without PMIx, versions
                ///< differ).
  device,       ///< A GPU was placed but CUDA or NCCL cannot use it.
  deadline,     ///< A rank did not arrive before the deadline.
  lost_rank,    ///< A rank of the job ended or its connection broke.
  system,       ///< The operating system or a library failed (socket, memory, MPI error).
};

/// The exception of libmuster. Others are only std::bad_alloc and those that a docstring names. what() is one
/// line: what happened, where, and what to do about it.
class MUSTER_EXPORT Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& what, bool repeated = false)
      : std::runtime_error(what), code_(code), reported_elsewhere_(repeated) {}
  ErrorCode code() const noexcept { return code_; }

  /// True when another rank of the job throws the same text and is the one that prints it, or when the
  /// library has printed it. A program that wants one line for the whole job prints what() only when this is
  /// false; it ends with exit_code() either way.
  bool reported_elsewhere() const noexcept { return reported_elsewhere_; }

  /// The exit code that a program should end with: 75 (EX_TEMPFAIL: a requeue makes sense) for deadline and
  /// lost_rank, 69 (EX_UNAVAILABLE) for device, 64 (EX_USAGE) for usage, 78 (EX_CONFIG) for environment, 71
  /// (EX_OSERR) for system. Values from BSD sysexits.h.
  int exit_code() const noexcept {
    switch (code_) {
      case ErrorCode::usage:
        return 64;
      case ErrorCode::environment:
        return 78;
      case ErrorCode::device:
        return 69;
      case ErrorCode::deadline:
      case ErrorCode::lost_rank:
        return 75;
      case ErrorCode::system:
        return 71;
    }
    return 1;
  }

 private:
  ErrorCode code_;
  bool reported_elsewhere_;
};

}  // namespace muster
