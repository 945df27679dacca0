// SPDX-License-Identifier: Apache-2.0
#include "gpus/row_claims.hpp"

#include <sys/mman.h>

#include <atomic>
#include <new>
#include <utility>

namespace muster::spank {

namespace {

// One for each task, and for the row of the same index.
struct Slot {
  std::atomic<bool> taken{false};  // whether a task has claimed the row
  ClaimedRow claimed;              // the claim of the task
};

}  // namespace

struct RowClaims::Shared {
  std::atomic<std::size_t> arrived{0};
  Slot* slots() { return reinterpret_cast<Slot*>(this + 1); }
  static std::size_t bytes(std::size_t tasks) { return sizeof(Shared) + tasks * sizeof(Slot); }
};

static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<std::size_t>::is_always_lock_free,
              "locks of one process would not hold in another");
static_assert(alignof(Slot) <= alignof(std::atomic<std::size_t>));

RowClaims::RowClaims(std::size_t tasks) : tasks_(tasks) {
  void* memory =
      mmap(nullptr, Shared::bytes(tasks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  shared_ = new (memory) Shared;
  for (std::size_t i = 0; i < tasks; ++i) new (shared_->slots() + i) Slot;
}

RowClaims::RowClaims(RowClaims&& other) noexcept
    : shared_(std::exchange(other.shared_, nullptr)), tasks_(std::exchange(other.tasks_, 0)) {}

RowClaims& RowClaims::operator=(RowClaims&& other) noexcept {
  std::swap(shared_, other.shared_);
  std::swap(tasks_, other.tasks_);
  return *this;
}

RowClaims::~RowClaims() {
  if (shared_ != nullptr) munmap(shared_, Shared::bytes(tasks_));
}

int RowClaims::claim(std::size_t task, const std::vector<int>& wanted) {
  const auto take = [&](std::size_t row) {
    return row < tasks_ && !shared_->slots()[row].taken.exchange(true);
  };
  for (const int row : wanted)
    if (row >= 0 && take(static_cast<std::size_t>(row))) return row;
  for (std::size_t row = 0; row < tasks_; ++row)
    if (take(row)) return static_cast<int>(row);
  return static_cast<int>(task);  // never reached if each task claims once
}

bool RowClaims::arrive(std::size_t task, const ClaimedRow& claimed) {
  shared_->slots()[task].claimed = claimed;
  return shared_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == tasks_;
}

const ClaimedRow& RowClaims::claimed_by(std::size_t task) const { return shared_->slots()[task].claimed; }

}  // namespace muster::spank
