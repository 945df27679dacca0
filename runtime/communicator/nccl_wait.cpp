// SPDX-License-Identifier: Apache-2.0
// How NCCL's communicators are waited for, fail and end.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "bootstrap/roster.hpp"
#include "communicator/nccl.hpp"
#include "log.hpp"

namespace muster::detail {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// How long an abort may take before it is left to go on by itself.
constexpr milliseconds abort_time{5000};
// Within the first moments of a wait the answer is looked for again at once; later the core is given away.
constexpr milliseconds eager{20};

void rest(Deadline::Clock::time_point since) {
  if (Deadline::Clock::now() - since < eager) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(microseconds{50});
  }
}

}  // namespace

Nccl::~Nccl() {
  if (comm_ != nullptr) {
    if (group_.failed() || !state_->open) {
      abort();
    } else {
      finish(Deadline(abort_time));
    }
  }
  std::erase(state_->all, this);
}

void Nccl::accept(ncclResult_t result, const Deadline& deadline) {
  auto const since = Deadline::Clock::now();
  while (result == ncclInProgress) {
    rest(since);
    if (group_.failed() || deadline.passed()) give_up_waiting(deadline);
    ncclResult_t const asked = state_->nccl.comm_get_async_error(comm_, &result);
    if (asked != ncclSuccess) result = asked;
  }
  if (result != ncclSuccess) give_up(result);
}

// Throws what `why` throws, with every communicator of this process aborted.
template <typename Throw>
void Nccl::abort_all(Throw why) {
  try {
    group_.check();
    why();
    std::terminate();  // `why` throws
  } catch (const Error&) {
    state_->abort_all();
    throw;
  }
}

// NCCL's own words for it are "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 60", where 60
// are bus and slot in hexadecimal.
std::string Nccl::reason(ncclResult_t result) const {
  const auto& roster = group_.job().roster;
  const Hello& self = roster[static_cast<std::size_t>(group_.job().rank)];
  std::vector<int> sharing;
  for (int const rank : group_.members()) {
    const Hello& other = roster[static_cast<std::size_t>(rank)];
    if (other.host == self.host && other.boot_id == self.boot_id && other.gpu == self.gpu)
      sharing.push_back(rank);
  }
  if (result != ncclInvalidUsage || sharing.size() < 2) return state_->nccl.reason(result, comm_);
  return fmt::format(
      "{} have one GPU together, which NCCL refuses: start one task for each GPU, or with "
      "--device=cpu the job runs without them",
      bootstrap::name_of_ranks(roster, sharing));
}

void Nccl::give_up(ncclResult_t result) {
  auto const why = reason(result);
  // A rank that ends shows in NCCL first, and on the control plane a moment later with its name.
  if (result == ncclRemoteError || result == ncclSystemError) {
    Deadline const moment(milliseconds{1000});
    while (group_.size() > 1 && !group_.failed() && !moment.passed())
      std::this_thread::sleep_for(milliseconds{1});
  }
  abort_all([&] { group_.broke(Fault::device, why); });
}

void Nccl::give_up_waiting(const Deadline& deadline) {
  abort_all([&] { group_.stalled(deadline.length()); });
}

void Nccl::synchronize(Stream stream, const Deadline& deadline) {
  make_context_current();
  auto const since = Deadline::Clock::now();
  while (true) {
    CUresult const state = state_->cuda.stream_query(stream);
    if (state == CUDA_SUCCESS) return;
    if (state != CUDA_ERROR_NOT_READY) {
      abort_all([&] { group_.broke(Fault::device, "CUDA says: " + state_->cuda.reason(state)); });
    }
    if (group_.failed() || deadline.passed()) give_up_waiting(deadline);
    ncclResult_t result = ncclSuccess;
    if (comm_ != nullptr && state_->nccl.comm_get_async_error(comm_, &result) == ncclSuccess &&
        result != ncclSuccess && result != ncclInProgress) {
      give_up(result);
    }
    rest(since);
  }
}

void Nccl::finish(const Deadline& deadline) noexcept {
  if (comm_ == nullptr) return;
  const auto& library = state_->nccl;
  ncclResult_t result = library.comm_finalize(comm_);
  auto const since = Deadline::Clock::now();
  while (result == ncclInProgress && !deadline.passed() && !group_.failed()) {
    rest(since);
    if (library.comm_get_async_error(comm_, &result) != ncclSuccess) result = ncclInternalError;
  }
  log::debug("nccl: '{}' is finalised", group_.name());
  if (result != ncclSuccess) return abort();
  // Local after a finished ncclCommFinalize; bounded all the same.
  if (auto const call = begin_end(library.comm_destroy)) call->wait(Deadline(abort_time));
  log::debug("nccl: '{}' is destroyed", group_.name());
}

void NcclState::abort_all() noexcept {
  Deadline const deadline(abort_time);
  std::vector<BackgroundCall> begun;
  for (Nccl* one : all) {
    if (auto call = one->begin_abort()) begun.push_back(std::move(*call));
  }
  for (const auto& call : begun) call.wait(deadline);
}

std::optional<BackgroundCall> Nccl::begin_abort() noexcept { return begin_end(state_->nccl.comm_abort); }

void Nccl::abort() noexcept {
  if (auto const call = begin_abort()) call->wait(Deadline(abort_time));
}

std::optional<BackgroundCall> Nccl::begin_end(decltype(::ncclCommAbort)* how) noexcept {
  if (comm_ == nullptr) return std::nullopt;
  auto* const comm = std::exchange(comm_, nullptr);
  auto const token = std::exchange(token_, 0);
  return BackgroundCall([state = state_, comm, token, how] {
    state->cuda.context_set_current(state->context);
    auto const result = how(comm);
    if (token != 0) state->cuda.mem_free(token);
    return static_cast<int>(result);
  });
}

}  // namespace muster::detail
