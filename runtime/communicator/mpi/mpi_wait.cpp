// SPDX-License-Identifier: Apache-2.0
// Start, waits, failure and end of MPI communicators.
#include <mpi.h>
#include <sched.h>

#include <chrono>
#include <thread>

#include "communicator/mpi/mpi_communicator.hpp"

namespace muster::detail {
namespace {

// Polls of a rank with a core of its own before it yields the core.
constexpr unsigned spins = 200;

// For prefer_sleeping_waits(). In 100 us a link of 10 Gbit/s moves 125 kB, which a connection's buffers hold;
// a poll takes some 5 us.
constexpr unsigned polls_before_sleep = 2;
constexpr std::chrono::microseconds sleep_between_polls{100};

constexpr int unused_tag = 3;

}  // namespace

std::shared_ptr<MpiCommunicator> MpiCommunicator::world(std::shared_ptr<MpiState> state,
                                                        CommunicatorGroup group) {
  std::shared_ptr<MpiCommunicator> made(
      new MpiCommunicator(std::move(state), std::move(group), MPI_COMM_NULL));
  made->require_open();
  auto const wait_scope = made->group_.wait_scope();
  made->group_.begin_setup("setting up");
  auto own = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
  try {
    made->run([&](MPI_Request* request) { return MPI_Comm_idup(MPI_COMM_WORLD, own.get(), request); });
  } catch (const Error&) {
    (void)own.release();  // MPI may still write to it
    throw;
  }
  made->comm_ = *own;
  {
    std::lock_guard const lock(made->state_->mpi_mutex);
    MPI_Comm_set_errhandler(made->comm_, MPI_ERRORS_RETURN);
  }
  made->set_up_shared_memory();
  return made;
}

MpiCommunicator::~MpiCommunicator() {
  // After a failure an operation may still be in flight; its buffers are leaked, because MPI may use them
  // until the process ends.
  if (broken_ || group_.failed()) {
    (void)hierarchical_.release();
    (void)inter_host_.release();
    (void)discarded_.release();
    (void)reduce_scatter_.release();
    return;
  }
  if (comm_ == MPI_COMM_NULL) return;
  std::lock_guard const lock(state_->mpi_mutex);
  if (state_->open) MPI_Comm_free(&comm_);
}

void MpiCommunicator::require_open() const {
  if (!state_->open) throw Error(ErrorCode::usage, "the communicator was used after the job was left");
}

std::shared_ptr<CommunicatorBackend> MpiCommunicator::split(int color, int key) {
  require_open();
  // The ranks meet on the control plane first, which can name the missing ones.
  CommunicatorGroup part = group_.split(color, key);
  auto const wait_scope = group_.wait_scope();
  auto const made = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  Deadline const deadline(group_.timeout());
  // MPI_Comm_split also progresses the operations of other threads, which cannot poll meanwhile.
  auto const code = run_bounded(
      [state = state_, whole = comm_, color, key, made] {
        std::lock_guard const lock(state->mpi_mutex);
        return MPI_Comm_split(whole, color, key, made.get());
      },
      deadline, [this] { return group_.failed(); });
  if (!code) {
    broken_ = true;
    group_.check();
    group_.fail_stalled(deadline.length());
  }
  if (*code != MPI_SUCCESS) fail_mpi(*code);
  std::shared_ptr<MpiCommunicator> communicator(new MpiCommunicator(state_, std::move(part), *made));
  communicator->set_up_shared_memory();
  return communicator;
}

void MpiCommunicator::wait(Batch& batch) {
  std::optional<Deadline> deadline;
  auto next = batch.begin();
  for (unsigned polls = 0;; ++polls) {
    // One by one: MPI_Test tests again after it made progress, MPI_Testall does not.
    int done = 1;
    int const code = call(deadline, [&] {
      int tested = MPI_SUCCESS;
      for (; next != batch.end() && tested == MPI_SUCCESS; ++next) {
        tested = MPI_Test(&*next, &done, MPI_STATUS_IGNORE);
        if (done == 0) break;
      }
      return tested;
    });
    if (code != MPI_SUCCESS) fail_mpi(code);
    if (done != 0) break;
    check_wait(polls, deadline);
    if (state_->yield || polls >= spins || state_->mpi_mutex_waiters > 0) yield_core(polls);
  }
  in_flight_ -= batch.size();
  batch.clear();
}

// A thread that yields its core to a compute thread gets it back after a scheduler slice, milliseconds later,
// and takes half of its time. A thread that sleeps is woken when it is due and takes only the time it needs.
void MpiCommunicator::yield_core(unsigned polls) {
  if (prefer_sleep_ && polls >= polls_before_sleep && state_->mpi_mutex_waiters == 0) {
    std::this_thread::sleep_for(sleep_between_polls);
  } else {
    sched_yield();
  }
}

void MpiCommunicator::check_wait(unsigned polls, std::optional<Deadline>& deadline) {
  // Where other threads run between two polls, a few polls take long. Otherwise reading the clock at every
  // poll would noticeably slow short messages.
  bool const read_clock = state_->yield || polls >= spins;
  if (read_clock) {
    if (!deadline) deadline.emplace(group_.timeout());
    group_.warn_if_stalled(*deadline);
  }
  if (!interrupted_ && !group_.failed() && (!read_clock || !deadline->passed())) return;
  broken_ = true;
  if (interrupted_) throw Error(ErrorCode::usage, "the operation was interrupted by its own rank");
  group_.check();
  group_.fail_stalled(group_.timeout());
}

// The thread that holds the mutex may be in a split that never ends.
void MpiCommunicator::lock_mpi(std::unique_lock<std::mutex>& lock, std::optional<Deadline>& deadline) {
  ++state_->mpi_mutex_waiters;
  for (unsigned polls = 0; !lock.try_lock(); ++polls) {
    sched_yield();
    try {
      check_wait(polls, deadline);
    } catch (...) {
      --state_->mpi_mutex_waiters;
      throw;
    }
  }
  --state_->mpi_mutex_waiters;
}

void MpiCommunicator::on_shm_spin(unsigned polls) {
  if (polls == 0) spin_deadline_.reset();
  check_wait(polls, spin_deadline_);
  bool const yields = state_->yield || polls >= spins || state_->mpi_mutex_waiters > 0;
  // The other rank may be waiting for a message that is still in flight here: MPI makes progress only when it
  // is called.
  if (polls % 64 == 63 || (yields && in_flight_ > 0)) {
    std::unique_lock const lock(state_->mpi_mutex, std::try_to_lock);
    int found = 0;
    if (lock.owns_lock()) MPI_Iprobe(MPI_ANY_SOURCE, unused_tag, comm_, &found, MPI_STATUS_IGNORE);
  }
  if (yields) yield_core(polls);
}

// MPI detects a broken connection first; the control plane follows a moment later and names the lost rank.
void MpiCommunicator::fail_mpi(int code) {
  broken_ = true;
  Deadline const moment(std::chrono::milliseconds{1000});
  while (!group_.failed() && !moment.passed()) sched_yield();
  group_.check();
  group_.fail(ErrorCode::system, mpi_error_text(code));
}

}  // namespace muster::detail
