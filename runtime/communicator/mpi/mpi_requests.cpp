// SPDX-License-Identifier: Apache-2.0
#include "communicator/mpi/mpi_requests.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "roster/roster.hpp"

namespace muster::detail {
namespace {

// Messages are split because of MPI's limit of 2^31 - 1 elements.
constexpr std::size_t message_bytes = 1u << 30;

// Polls of a rank with a core of its own before it yields the core.
constexpr unsigned spins = 200;

// For prefer_sleeping_waits(). In 100 us a link of 10 Gbit/s moves 125 kB, which a connection's buffers hold;
// a poll takes some 5 us.
constexpr unsigned polls_before_sleep = 2;

// No message has it.
constexpr int unused_tag = 0;

// Polls between two looks at the messages that have arrived.
constexpr unsigned polls_between_checks = 256;

// A power of two minus one, which MPI's limit may not be.
int tag_limit(const MpiLibrary& mpi) {
  int* limit = nullptr;
  int found = 0;
  mpi.comm_get_attr(mpi.comm_world, MPI_TAG_UB, &limit, &found);
  if (found == 0) return 0x7fff;  // the least that MPI allows
  return static_cast<int>((std::bit_floor(static_cast<unsigned>(*limit) + 1)) - 1);
}

}  // namespace

MpiRequests::MpiRequests(std::shared_ptr<MpiState> state, CommunicatorGroup& group, MPI_Comm comm)
    : state_(std::move(state)),
      mpi_(state_->mpi),
      group_(group),
      comm_(comm),
      tags_(group.track_waits(), tag_limit(mpi_)) {}

void MpiRequests::begin_message(const CollectiveCall& call) {
  auto const bytes = call.count * size_of(call.type);
  if (call.kind == OperationKind::send)
    return send(call.in, bytes, call.peer, tags_.next_send(call), messages_);
  auto const tag = tags_.next_recv(call);
  auto const first = messages_.size();
  recv(call.out, bytes, call.peer, tag, messages_);
  for (std::size_t i = first, at = 0; i < messages_.size(); ++i, at += message_bytes)
    posted_.push_back({call, tag, i, at, std::min(message_bytes, bytes - at)});
}

void MpiRequests::wait_messages() {
  wait(messages_);
  posted_.clear();
}

void MpiRequests::check_posted() {
  for (const auto& message : posted_) {
    int found = 0;
    MPI_Status status;
    call([&] { return mpi_.iprobe(message.recv.peer, MPI_ANY_TAG, comm_, &found, &status); });
    if (found == 0) continue;
    auto const sent = tags_.describe_mismatch(status.MPI_TAG, message.tag, bytes_of(status));
    if (!sent.empty()) fail_message(message.recv, sent);
  }
}

const MpiRequests::PostedMessage* MpiRequests::find_posted(const Batch& batch, std::size_t request) const {
  if (&batch != &messages_) return nullptr;
  auto const found = std::ranges::lower_bound(posted_, request, {}, &PostedMessage::request);
  return found == posted_.end() || found->request != request ? nullptr : &*found;
}

bool MpiRequests::is_whole(const Batch& batch, std::size_t request, const MPI_Status& status) const {
  auto const* const message = find_posted(batch, request);
  return message == nullptr || bytes_of(status) == message->bytes;
}

void MpiRequests::fail_request(const Batch& batch, std::size_t request, int code, const MPI_Status& status) {
  auto const* const message = find_posted(batch, request);
  if (message == nullptr || (code != MPI_SUCCESS && code != MPI_ERR_TRUNCATE)) fail(code);
  if (code == MPI_ERR_TRUNCATE) fail_message(message->recv, "a longer send");
  auto const type = message->recv.type;
  fail_message(message->recv, fmt::format("a send of {} {}", (message->at + bytes_of(status)) / size_of(type),
                                          name_of(type)));
}

std::size_t MpiRequests::bytes_of(const MPI_Status& status) const {
  MPI_Count bytes = 0;
  mpi_.get_elements_x(&status, mpi_.byte, &bytes);
  return static_cast<std::size_t>(bytes);
}

void MpiRequests::fail_message(const CollectiveCall& recv, const std::string& sent) {
  broken_ = true;
  auto const peer = group_.members()[static_cast<std::size_t>(recv.peer)];
  group_.fail(ErrorCode::usage,
              fmt::format("a recv of {} {} met {} on {}", recv.count, name_of(recv.type), sent,
                          bootstrap::describe_rank(group_.job().roster[static_cast<std::size_t>(peer)])));
}

void MpiRequests::send(const void* from, std::size_t bytes, int peer, int tag, Batch& batch) {
  std::size_t at = 0;
  do {
    auto const length = static_cast<int>(std::min(message_bytes, bytes - at));
    const void* const part = static_cast<const std::byte*>(from) + at;
    start(batch, [&](MPI_Request* request) {
      return mpi_.isend(part, length, mpi_.byte, peer, tag, comm_, request);
    });
    at += message_bytes;
  } while (at < bytes);
}

void MpiRequests::recv(void* to, std::size_t bytes, int peer, int tag, Batch& batch) {
  std::size_t at = 0;
  do {
    auto const length = static_cast<int>(std::min(message_bytes, bytes - at));
    void* const part = static_cast<std::byte*>(to) + at;
    start(batch, [&](MPI_Request* request) {
      return mpi_.irecv(part, length, mpi_.byte, peer, tag, comm_, request);
    });
    at += message_bytes;
  } while (at < bytes);
}

void MpiRequests::wait(Batch& batch) {
  std::size_t next = 0;
  for (unsigned polls = 0;; ++polls) {
    // One by one: MPI_Test tests again after it made progress, MPI_Testall does not.
    int done = 1;
    MPI_Status status;
    int const code = call([&] {
      int tested = MPI_SUCCESS;
      for (; next < batch.size(); ++next) {
        tested = mpi_.test(&batch[next], &done, &status);
        if (done == 0 || tested != MPI_SUCCESS || !is_whole(batch, next, status)) break;
      }
      return tested;
    });
    if (next == batch.size()) break;
    if (done != 0 || code != MPI_SUCCESS) fail_request(batch, next, code, status);
    check_wait(polls);
    if (polls % polls_between_checks == polls_between_checks - 1 && &batch == &messages_) check_posted();
    if (state_->yield || polls >= spins || state_->mpi_mutex_waiters > 0) yield_core(polls);
  }
  in_flight_ -= batch.size();
  batch.clear();
}

void MpiRequests::yield_core(unsigned polls) {
  if (prefer_sleep_ && polls >= polls_before_sleep && state_->mpi_mutex_waiters == 0)
    CoreYield::sleep();
  else
    core_.yield();
}

void MpiRequests::check_wait(unsigned polls) {
  // Where other threads run between two polls, a few polls take long. Otherwise reading the clock at every
  // poll would noticeably slow short messages.
  bool const read_clock = state_->yield || polls >= spins;
  if (read_clock) group_.warn_if_stalled();
  if (!interrupted_ && !group_.failed() && (!read_clock || !group_.deadline().passed())) return;
  fail_wait();
}

void MpiRequests::fail_wait() {
  broken_ = true;
  if (interrupted_) throw Error(ErrorCode::usage, "the operation was interrupted by its own rank");
  group_.check();
  group_.fail_stalled(group_.timeout());
}

void MpiRequests::fail_mismatch() {
  broken_ = true;
  group_.fail_mismatch();
}

// The thread that holds the mutex may be in a split that never ends.
void MpiRequests::lock_mpi(std::unique_lock<std::mutex>& lock) {
  ++state_->mpi_mutex_waiters;
  for (unsigned polls = 0; !lock.try_lock(); ++polls) {
    sched_yield();
    try {
      check_wait(polls);
    } catch (...) {
      --state_->mpi_mutex_waiters;
      throw;
    }
  }
  --state_->mpi_mutex_waiters;
}

void MpiRequests::on_shm_spin(unsigned polls) {
  check_wait(polls);
  bool const yields = state_->yield || polls >= spins || state_->mpi_mutex_waiters > 0;
  // The other rank may be waiting for a message that is still in flight here: MPI makes progress only when it
  // is called.
  if (polls % 64 == 63 || (yields && in_flight_ > 0)) {
    std::unique_lock const lock(state_->mpi_mutex, std::try_to_lock);
    int found = 0;
    if (lock.owns_lock()) mpi_.iprobe(MPI_ANY_SOURCE, unused_tag, comm_, &found, MPI_STATUS_IGNORE);
  }
  if (yields) yield_core(polls);
}

// MPI detects a broken connection first; the control plane follows a moment later and names the lost rank.
void MpiRequests::fail(int code) {
  broken_ = true;
  Deadline const moment(std::chrono::milliseconds{1000});
  while (!group_.failed() && !moment.passed()) sched_yield();
  group_.check();
  group_.fail(ErrorCode::system, mpi_.error_text(code));
}

}  // namespace muster::detail
