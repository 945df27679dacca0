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

std::string reason_of(pmix_status_t status);

/// What callbacks on PMIx's own thread write and we wait for. Kept alive by whoever comes last.
class PmixReplies {
 public:
  using Bytes = std::vector<std::uint8_t>;

  explicit PmixReplies(std::size_t count) : awaited_(count), values_(count) {}

  /// Until all came; false when the deadline passed first.
  bool wait(const Deadline& deadline);
  /// Until the first of them came, or all others, or the deadline passed. The index of the first that is
  /// there.
  std::optional<std::size_t> wait_for_first(const Deadline& deadline);
  /// A copy, since PMIx's own thread waits for the lock: whoever held it must not wait for PMIx.
  std::vector<std::optional<Bytes>> so_far();
  /// The last that was no success.
  pmix_status_t failure();
  void note(std::size_t index, pmix_status_t status, std::optional<Bytes> value);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t awaited_;
  std::vector<std::optional<Bytes>> values_;
  pmix_status_t failure_ = PMIX_SUCCESS;
};

/// A connected PMIx client: what its server told it, one hello for all ranks and the fence that spreads it.
/// Every wait runs under our own clock. Not thread-safe.
class PmixClient {
 public:
  explicit PmixClient(const pmix_proc_t& self) : self_(self) {}

  int rank() const noexcept { return static_cast<int>(self_.rank); }
  std::string job_name() const { return self_.nspace; }

  std::optional<std::uint64_t> number(const char* key, pmix_rank_t rank) const;
  /// Empty when the server did not say so at start.
  std::string host_of(int rank) const;
  /// Once. @throws Error(ErrorCode::system)
  void put(std::vector<std::uint8_t> hello);
  /// Over all ranks, collecting; false when the deadline passed. @throws Error(ErrorCode::system)
  bool fence(const Deadline& deadline);
  /// The other ranks of this host, as far as the server said.
  std::vector<int> peers() const;
  /// Asks for the hellos of these ranks at once.
  std::shared_ptr<PmixReplies> get(const std::vector<int>& ranks);

 private:
  std::string text(const char* key, int rank) const;

  pmix_proc_t self_;
};

}  // namespace muster::bootstrap
