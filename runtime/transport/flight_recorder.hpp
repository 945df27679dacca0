// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "transport/process_handle.hpp"

namespace muster::control {

/// "all_reduce (operation 5 on communicator 'world')". Without a number when `number` is 0 (a point-to-point
/// message); "MPI_Init" alone when `group` is empty (no communicator).
std::string describe_operation(const std::string& operation, std::uint64_t number, const std::string& group);

/// A rank's last call, in memory that its host leader can read after the rank was killed or stopped. Writing
/// takes a few nanoseconds and sends nothing. Writing and reading are thread-safe.
class FlightRecorder {
 public:
  /// When memfd_create(2) is refused, only this process can read it.
  FlightRecorder();
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  /// `phase`: "running", "setting up NCCL".
  void enter_phase(const char* phase);
  /// `number` and `group` as in describe_operation().
  void enter(const char* operation, const char* group, std::uint64_t number);

  /// "while running, last call all_reduce (operation 5 on communicator 'world')"
  std::string text() const;
  /// The descriptor for Reader, in this process; -1 when the memory cannot be shared.
  int descriptor() const { return descriptor_; }

  /// Reads the recorder of a process on this host, also after that process ended. `descriptor`: the other
  /// process's descriptor().
  class Reader {
   public:
    Reader() = default;
    Reader(const ProcessHandle& process, int descriptor);
    ~Reader();
    Reader(Reader&& other) noexcept;
    Reader& operator=(Reader&& other) noexcept;
    /// The other recorder's text(); empty when it cannot be read.
    std::string text() const;

   private:
    const void* page_ = nullptr;
  };

 private:
  struct SharedPage;

  int descriptor_ = -1;
  SharedPage* page_;
};

}  // namespace muster::control
