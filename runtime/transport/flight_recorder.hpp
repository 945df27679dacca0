// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "transport/process_handle.hpp"

namespace muster::control {

/// "all_reduce (operation 5 on communicator 'world')"; without a number for 0, a message between two ranks;
/// "MPI_Init" alone without a group, for what is no communicator's.
std::string describe_operation(const std::string& operation, std::uint64_t number, const std::string& group);

/// What a rank did last, in memory that its host's leader can read after the rank was killed or stopped. A
/// few nanoseconds to write; nothing is sent. Writing and reading are thread-safe.
class FlightRecorder {
 public:
  /// Without such memory (memfd_create(2) refused) it is this process's alone.
  FlightRecorder();
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  /// "running", "setting up NCCL": a string literal.
  void enter_phase(const char* phase);
  /// `number`: as in describe_operation(); `group` is empty for what is no communicator's.
  void enter(const char* operation, const char* group, std::uint64_t number);

  /// "while running, last call all_reduce (operation 5 on communicator 'world')"
  std::string text() const;
  /// What this process's leader needs to read it; -1 when it cannot be shared.
  int descriptor() const { return descriptor_; }

  /// The same as text() of a process on this host, ended or not: opens what it named as its descriptor().
  class Reader {
   public:
    Reader() = default;
    Reader(const ProcessHandle& process, int descriptor);
    ~Reader();
    Reader(Reader&& other) noexcept;
    Reader& operator=(Reader&& other) noexcept;
    /// Empty when it cannot be read.
    std::string text() const;

   private:
    const void* page_ = nullptr;
  };

 private:
  struct Page;

  int descriptor_ = -1;
  Page* page_;
};

}  // namespace muster::control
