// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "config/options.hpp"
#include "machine/host_memory.hpp"
#include "muster/job.hpp"

namespace muster {

/// What must be equal on all ranks, as far as a process knows it before it has joined the job.
struct RunFingerprint {
  std::uint64_t settings = 0, data = 0;
  bool operator==(const RunFingerprint&) const = default;
};

/// Processes that want to join a running job (--join), as files in the folder "join" of --output: each writes
/// a request there, again and again, and gets an answer. This is rank 0's side. Not thread-safe.
class JoinFolder {
 public:
  /// Bytes that so many processes of one host need there together.
  using MemoryEstimate = std::function<std::uint64_t(int processes)>;

  /// `run`: of the ranks that train.
  JoinFolder(const std::filesystem::path& output, const RunFingerprint& run, MemoryEstimate needed);

  /// True when processes wait to be invited, until forget(). Looks into the folder at most once a second
  /// (sooner after it found a new process), and counts only processes that have written since the last look.
  /// Refuses those that do not fit the run, or not into the memory of their host. If `ranks`, those of the
  /// job, compute on GPUs, it also refuses those that have GPUs of which none is free.
  bool has_requests(const std::vector<Hello>& ranks);
  /// How many were waiting at that look.
  int waiting() const { return static_cast<int>(waiting_.size()); }
  /// Gives them the invitations, of which there are as many, and each a GPU.
  /// @throws muster::Error(ErrorCode::system) when a file cannot be written.
  void invite(const std::vector<std::string>& invitations);
  /// Those that were waiting are not any more. Meanwhile some may have written for the last time.
  void forget() {
    waiting_.clear();
    seen_.clear();
  }

 private:
  struct Waiting {
    std::string name, host, gpu;
  };

  /// True when there is a process that was not there at the last look.
  bool look(const std::vector<Hello>& ranks);
  /// Lets the process wait, or refuses it.
  void consider(const std::string& name, const std::string& request, const std::vector<Hello>& ranks);
  /// Why its host has too little memory for the process; empty: it has enough. `beside`: how many other
  /// processes of the host wait.
  std::string describe_missing_memory(const std::string& host, const FreeMemory& free, int beside) const;
  /// The first of a process's `gpus` that no rank uses and no other process gets. Empty: none.
  std::string choose_gpu(const std::string& host, const std::string& gpus,
                         const std::vector<Hello>& ranks) const;
  void refuse(const std::string& name, const std::string& why) const;

  std::filesystem::path path_;
  RunFingerprint run_;
  MemoryEstimate needed_;
  std::chrono::steady_clock::time_point next_look_{};
  std::map<std::string, std::filesystem::file_time_type> seen_;
  std::vector<Waiting> waiting_;
};

/// Rank 0's answer to a process that may join.
struct JoinAnswer {
  std::string invitation;  ///< of Job::grow()
  std::string gpu;  ///< that the process shall use, one of its own; empty: it has none, or all are in use
};

/// The side of a process with --join: asks rank 0 of the run in --output. `gpus`: those that the process can
/// use, as in MUSTER_GPUS.
/// @throws muster::Error: usage (no run is under way there, it has ended, or it refuses this process),
/// deadline (no answer within a quarter of an hour), system.
JoinAnswer request_invitation(const Options& options, const RunFingerprint& own, const std::string& gpus);

}  // namespace muster
