// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pmix.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "deadline.hpp"

namespace muster::bootstrap {

std::string describe_status(pmix_status_t status);

/// Outstanding PMIx calls: callbacks on PMIx's thread complete them while this process waits. A callback may
/// run after the wait has ended, so both sides share ownership.
class PmixRequests {
 public:
  using Bytes = std::vector<std::uint8_t>;

  explicit PmixRequests(std::size_t count) : outstanding_(count), values_(count) {}

  /// Waits until all are complete; false when the deadline passes first.
  bool wait(const Deadline& deadline);
  /// Waits until request 0 has a value, all are complete, or the deadline passes. Returns the lowest index
  /// that has a value.
  std::optional<std::size_t> wait_for_first(const Deadline& deadline);
  /// A copy: PMIx's thread needs the lock, so no caller may hold it while it waits for PMIx.
  std::vector<std::optional<Bytes>> snapshot();
  /// The last status other than success.
  pmix_status_t failure();
  void complete(std::size_t index, pmix_status_t status, std::optional<Bytes> value);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t outstanding_;
  std::vector<std::optional<Bytes>> values_;
  pmix_status_t failure_ = PMIX_SUCCESS;
};

/// A number of a rank, or of the job for PMIX_RANK_WILDCARD; 0 when there is none. PMIx queries the server
/// for what it did not provide at start, and the server may not answer.
int get_pmix_number(const pmix_proc_t& self, const char* key, pmix_rank_t rank);

/// A connected PMIx client: the data of its server, one published hello, and the fence that distributes all
/// hellos. Every wait has our own deadline. Not thread-safe.
class PmixClient {
 public:
  explicit PmixClient(const pmix_proc_t& self) : self_(self) {}

  int rank() const noexcept { return static_cast<int>(self_.rank); }
  std::string job_name() const { return self_.nspace; }

  /// Empty when the server did not provide it at start.
  std::string find_host(int rank) const;
  /// Publishes this rank's hello, once. @throws Error(ErrorCode::system)
  void put(std::vector<std::uint8_t> hello);
  /// Collecting, over all ranks; false when the deadline passes first. @throws Error(ErrorCode::system)
  bool fence(const Deadline& deadline);
  /// The other ranks of this host, as far as the server provided them at start.
  std::vector<int> local_peers() const;
  /// Requests the hellos of these ranks in parallel.
  std::shared_ptr<PmixRequests> get(const std::vector<int>& ranks);

 private:
  std::string get_text(const char* key, int rank) const;

  pmix_proc_t self_;
};

}  // namespace muster::bootstrap
