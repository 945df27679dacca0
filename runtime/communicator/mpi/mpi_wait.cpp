// SPDX-License-Identifier: Apache-2.0
// How MPI's communicators begin, are waited for, fail and end.
#include <mpi.h>
#include <sched.h>

#include <chrono>
#include <thread>

#include "communicator/mpi/mpi_communicator.hpp"

namespace muster::detail {
namespace {

// How often a rank that has its core for itself looks before it gives it away.
constexpr unsigned spins = 200;

// prefer_sleeping_waits(): 100 us are what a link of 10 Gbit/s needs for 125 kB, less than a connection's buffers hold,
// and a look takes some 5 us.
constexpr unsigned looks_before_sleep = 2;
constexpr std::chrono::microseconds sleep_between_looks{100};

constexpr int unused_tag = 3;

}  // namespace

std::shared_ptr<MpiCommunicator> MpiCommunicator::world(std::shared_ptr<MpiState> state, CommunicatorGroup group) {
  std::shared_ptr<MpiCommunicator> made(
      new MpiCommunicator(std::move(state), std::move(group), MPI_COMM_NULL));
  made->require_open();
  auto const inside = made->group_.inside();
  made->group_.enter_set_up("setting up");
  auto own = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
  try {
    made->run([&](MPI_Request* request) { return MPI_Comm_idup(MPI_COMM_WORLD, own.get(), request); });
  } catch (const Error&) {
    (void)own.release();  // MPI may still write there
    throw;
  }
  made->comm_ = *own;
  {
    std::lock_guard const lock(made->state_->calls);
    MPI_Comm_set_errhandler(made->comm_, MPI_ERRORS_RETURN);
  }
  made->share_memory();
  return made;
}

MpiCommunicator::~MpiCommunicator() {
  // After a failure an operation may still be under way; MPI keeps what it needs until the process ends.
  if (broken_ || group_.failed()) {
    (void)hosts_.release();
    (void)leaders_.release();
    (void)dropped_.release();
    (void)reduce_scatter_.release();
    return;
  }
  if (comm_ == MPI_COMM_NULL) return;
  std::lock_guard const lock(state_->calls);
  if (state_->open) MPI_Comm_free(&comm_);
}

void MpiCommunicator::require_open() const {
  if (!state_->open) throw Error(ErrorCode::usage, "the communicator was used after the job was left");
}

std::shared_ptr<CommunicatorBackend> MpiCommunicator::split(int color, int key) {
  require_open();
  // The ranks meet on the control plane first, where who is missing is named.
  CommunicatorGroup part = group_.split(color, key);
  auto const inside = group_.inside();
  auto const made = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  Deadline const deadline(group_.timeout());
  // It makes progress for the operations of other threads too, which get no look meanwhile.
  auto const code = run_bounded(
      [state = state_, whole = comm_, color, key, made] {
        std::lock_guard const lock(state->calls);
        return MPI_Comm_split(whole, color, key, made.get());
      },
      deadline, [this] { return group_.failed(); });
  if (!code) {
    broken_ = true;
    group_.check();
    group_.stalled(deadline.length());
  }
  if (*code != MPI_SUCCESS) give_up(*code);
  std::shared_ptr<MpiCommunicator> communicator(new MpiCommunicator(state_, std::move(part), *made));
  communicator->share_memory();
  return communicator;
}

void MpiCommunicator::wait(Batch& batch) {
  std::optional<Deadline> deadline;
  auto next = batch.begin();
  for (unsigned looks = 0;; ++looks) {
    // One by one: MPI_Test looks again after it made progress, MPI_Testall does not.
    int done = 1;
    int const code = call(deadline, [&] {
      int tested = MPI_SUCCESS;
      for (; next != batch.end() && tested == MPI_SUCCESS; ++next) {
        tested = MPI_Test(&*next, &done, MPI_STATUS_IGNORE);
        if (done == 0) break;
      }
      return tested;
    });
    if (code != MPI_SUCCESS) give_up(code);
    if (done != 0) break;
    require_hope(looks, deadline);
    if (state_->yield || looks >= spins || state_->wanting_calls > 0) give_core_away(looks);
  }
  under_way_ -= batch.size();
  batch.clear();
}

// A thread that yields a core to one that computes has it back within a scheduler's slice, milliseconds
// later, and shares it half and half; one that sleeps is woken when it is due and takes what it needs.
void MpiCommunicator::give_core_away(unsigned looks) {
  if (behind_ && looks >= looks_before_sleep && state_->wanting_calls == 0) {
    std::this_thread::sleep_for(sleep_between_looks);
  } else {
    sched_yield();
  }
}

void MpiCommunicator::require_hope(unsigned looks, std::optional<Deadline>& deadline) {
  // Where others have the core between two looks, few of them make a long time; otherwise reading the clock
  // would take its part of a short message's time.
  bool const look_at_clock = state_->yield || looks >= spins;
  if (look_at_clock) {
    if (!deadline) deadline.emplace(group_.timeout());
    group_.waiting(*deadline);
  }
  if (!interrupted_ && !group_.failed() && (!look_at_clock || !deadline->passed())) return;
  broken_ = true;
  if (interrupted_) throw Error(ErrorCode::usage, "the operation was interrupted by its own rank");
  group_.check();
  group_.stalled(group_.timeout());
}

// Whoever has the lock may be in a split that never ends.
void MpiCommunicator::wait_for_turn(std::unique_lock<std::mutex>& lock, std::optional<Deadline>& deadline) {
  ++state_->wanting_calls;
  for (unsigned looks = 0; !lock.try_lock(); ++looks) {
    sched_yield();
    try {
      require_hope(looks, deadline);
    } catch (...) {
      --state_->wanting_calls;
      throw;
    }
  }
  --state_->wanting_calls;
}

void MpiCommunicator::be_patient(unsigned looks) {
  if (looks == 0) patient_until_.reset();
  require_hope(looks, patient_until_);
  bool const gives_away = state_->yield || looks >= spins || state_->wanting_calls > 0;
  // The other rank may be waiting for a message that is still under way here: MPI goes on only when it is
  // called.
  if (looks % 64 == 63 || (gives_away && under_way_ > 0)) {
    std::unique_lock const lock(state_->calls, std::try_to_lock);
    int found = 0;
    if (lock.owns_lock()) MPI_Iprobe(MPI_ANY_SOURCE, unused_tag, comm_, &found, MPI_STATUS_IGNORE);
  }
  if (gives_away) give_core_away(looks);
}

// A broken connection shows in MPI first, and on the control plane a moment later with the name of who is
// gone.
void MpiCommunicator::give_up(int code) {
  broken_ = true;
  Deadline const moment(std::chrono::milliseconds{1000});
  while (!group_.failed() && !moment.passed()) sched_yield();
  group_.check();
  group_.broke(ErrorCode::system, mpi_reason(code));
}

}  // namespace muster::detail
