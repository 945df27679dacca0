// SPDX-License-Identifier: Apache-2.0
#include "communicator/host_mpi.hpp"

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "communicator/mpi_session.hpp"

namespace muster::detail {

std::shared_ptr<Collectives> make_host_mpi(std::shared_ptr<MpiState> state, Group group);

namespace {

// Longer buffers go in pieces of this size: below MPI's limit of 2^31 - 1 elements, and on two ranks of one
// host a 4 MiB all-reduce moves 10.9 GB/s where a 64 MiB one moves 2.4 GB/s (Open MPI 4.1.4).
constexpr std::size_t piece_bytes = 4u << 20;
// Point-to-point messages are only split for MPI's limit.
constexpr std::size_t message_bytes = 1u << 30;
// How often a rank that has its core for itself looks before it gives it away.
constexpr int spins = 2000;
constexpr int tag = 1;

class HostMpi : public Collectives {
 public:
  HostMpi(std::shared_ptr<MpiState> state, Group group, MPI_Comm comm)
      : state_(std::move(state)), group_(std::move(group)), comm_(comm) {}
  ~HostMpi() override {
    // After a failure an operation may still be under way; MPI keeps what it needs until the process ends.
    if (comm_ == MPI_COMM_NULL || broken_ || group_.failed()) return;
    std::lock_guard const lock(state_->calls);
    if (state_->open) MPI_Comm_free(&comm_);
  }
  HostMpi(const HostMpi&) = delete;
  HostMpi& operator=(const HostMpi&) = delete;

  // Gives a world that has no communicator yet one of its own.
  void duplicate_world() {
    enter("setting up");
    auto own = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
    try {
      run([&](MPI_Request* request) { return MPI_Comm_idup(MPI_COMM_WORLD, own.get(), request); });
    } catch (const Error&) {
      (void)own.release();  // MPI may still write there
      throw;
    }
    comm_ = *own;
    std::lock_guard const lock(state_->calls);
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }

  int rank() const noexcept override { return group_.rank(); }
  int size() const noexcept override { return group_.size(); }
  const char* backend() const noexcept override { return "open-mpi"; }

  void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                  Stream) override {
    enter("all_reduce");
    auto const piece = piece_bytes / size_of(type);
    for (std::size_t at = 0; at < count; at += piece) {
      auto const length = std::min(piece, count - at);
      void* const to = at_element(out, at, type);
      const void* const from = in == out ? MPI_IN_PLACE : at_element(in, at, type);
      run([&](MPI_Request* request) {
        return MPI_Iallreduce(from, to, static_cast<int>(length), mpi(type), mpi(type, op), comm_, request);
      });
    }
    if (op == Reduction::average) divide(out, count, type, size());
  }

  void broadcast(void* buffer, std::size_t count, DataType type, int root, Stream) override {
    enter("broadcast");
    auto const piece = piece_bytes / size_of(type);
    for (std::size_t at = 0; at < count; at += piece) {
      auto const length = static_cast<int>(std::min(piece, count - at));
      run([&](MPI_Request* request) {
        return MPI_Ibcast(at_element(buffer, at, type), length, mpi(type), root, comm_, request);
      });
    }
  }

  void all_gather(const void* in, void* out, std::size_t count, DataType type, Stream) override {
    enter("all_gather");
    auto const piece = share_piece(type);
    if (count <= piece) {
      auto const length = static_cast<int>(count);
      run([&](MPI_Request* request) {
        return MPI_Iallgather(in, length, mpi(type), out, length, mpi(type), comm_, request);
      });
      return;
    }
    std::vector<std::byte> gathered(piece * ranks() * size_of(type));
    for (std::size_t at = 0; at < count; at += piece) {
      auto const length = std::min(piece, count - at);
      auto const part = static_cast<int>(length);
      run([&](MPI_Request* request) {
        return MPI_Iallgather(at_element(in, at, type), part, mpi(type), gathered.data(), part, mpi(type),
                              comm_, request);
      });
      for (std::size_t r = 0; r < ranks(); ++r) {
        std::memcpy(at_element(out, r * count + at, type), at_element(gathered.data(), r * length, type),
                    length * size_of(type));
      }
    }
  }

  void reduce_scatter(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                      Stream) override {
    enter("reduce_scatter");
    auto const piece = share_piece(type);
    std::vector<std::byte> arranged(count <= piece ? 0 : piece * ranks() * size_of(type));
    for (std::size_t at = 0; at < count; at += piece) {
      auto const length = std::min(piece, count - at);
      const void* from = in;
      if (count > piece) {
        for (std::size_t r = 0; r < ranks(); ++r) {
          std::memcpy(at_element(arranged.data(), r * length, type), at_element(in, r * count + at, type),
                      length * size_of(type));
        }
        from = arranged.data();
      }
      run([&](MPI_Request* request) {
        return MPI_Ireduce_scatter_block(from, at_element(out, at, type), static_cast<int>(length), mpi(type),
                                         mpi(type, op), comm_, request);
      });
    }
    if (op == Reduction::average) divide(out, count, type, size());
  }

  void send(const void* buffer, std::size_t count, DataType type, int to, Stream) override {
    enter_message("send", to);
    in_messages(count * size_of(type), [&](std::size_t at, int length, MPI_Request* request) {
      return MPI_Isend(static_cast<const std::byte*>(buffer) + at, length, MPI_BYTE, to, tag, comm_, request);
    });
  }

  void recv(void* buffer, std::size_t count, DataType type, int from, Stream) override {
    enter_message("recv", from);
    in_messages(count * size_of(type), [&](std::size_t at, int length, MPI_Request* request) {
      return MPI_Irecv(static_cast<std::byte*>(buffer) + at, length, MPI_BYTE, from, tag, comm_, request);
    });
  }

  void barrier(Stream) override {
    enter("barrier");
    run([&](MPI_Request* request) { return MPI_Ibarrier(comm_, request); });
  }

  std::shared_ptr<Collectives> split(int color, int key) override {
    require_open();
    // The ranks meet on the control plane first, where who is missing is named.
    Group part = group_.split(color, key);
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
    return std::make_shared<HostMpi>(state_, std::move(part), *made);
  }

  void synchronize(Stream) override {}
  void interrupt() noexcept override { interrupted_ = true; }

 private:
  void require_open() const {
    if (!state_->open) throw Error(Fault::usage, "the communicator was used after the job was left");
  }
  void enter(const char* operation) {
    require_open();
    group_.enter(operation);
  }
  void enter_message(const char* operation, int peer) {
    require_open();
    group_.enter_message(operation, peer);
  }
  MPI_Datatype mpi(DataType type) const { return state_->types->type(type); }
  MPI_Op mpi(DataType type, Reduction op) const { return state_->types->op(type, op); }
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }
  // Elements of one rank's share that are moved at once, so that all shares together stay in MPI's limits.
  std::size_t share_piece(DataType type) const {
    return std::max<std::size_t>(1, (1u << 30) / size_of(type) / ranks());
  }

  static const void* at_element(const void* buffer, std::size_t index, DataType type) {
    return static_cast<const std::byte*>(buffer) + index * size_of(type);
  }
  static void* at_element(void* buffer, std::size_t index, DataType type) {
    return static_cast<std::byte*>(buffer) + index * size_of(type);
  }

  template <typename Start>
  void in_messages(std::size_t bytes, Start start) {
    for (std::size_t at = 0; at < bytes; at += message_bytes) {
      auto const length = static_cast<int>(std::min(message_bytes, bytes - at));
      run([&](MPI_Request* request) { return start(at, length, request); });
    }
  }

  // Starts an operation and waits for it: looking for a while, then giving the core away between looks, under
  // the deadline.
  template <typename Start>
  void run(Start start) {
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0;
    Deadline const deadline(group_.timeout());
    int code = call(deadline, [&] { return start(&request); });
    for (int looks = 0; code == MPI_SUCCESS; ++looks) {
      code = call(deadline, [&] { return MPI_Test(&request, &done, MPI_STATUS_IGNORE); });
      if (done != 0 || code != MPI_SUCCESS) break;
      require_hope(looks, deadline);
      if (state_->yield || looks >= spins || state_->wanting_calls > 0) sched_yield();
    }
    if (code != MPI_SUCCESS) give_up(code);
  }

  // Throws when waiting on is in vain.
  void require_hope(int looks, const Deadline& deadline) {
    if (!interrupted_ && !group_.failed() && (looks % 256 != 255 || !deadline.passed())) return;
    broken_ = true;
    if (interrupted_) throw Error(Fault::usage, "the operation was interrupted by its own rank");
    group_.check();
    group_.stalled(deadline.length());
  }

  // One call of MPI, alone among this process's threads. Whoever has the lock may be in a split that never ends.
  template <typename Call>
  int call(const Deadline& deadline, Call make) {
    std::unique_lock lock(state_->calls, std::try_to_lock);
    if (!lock.owns_lock()) {
      ++state_->wanting_calls;
      for (int looks = 0; !lock.try_lock(); ++looks) {
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
    require_open();
    return make();
  }

  // A broken connection shows in MPI first, and on the control plane a moment later with the name of who is
  // gone.
  [[noreturn]] void give_up(int code) {
    broken_ = true;
    Deadline const moment(std::chrono::milliseconds{1000});
    while (!group_.failed() && !moment.passed()) sched_yield();
    group_.check();
    group_.broke(Fault::system, mpi_reason(code));
  }

  std::shared_ptr<MpiState> state_;
  Group group_;
  MPI_Comm comm_;
  bool broken_ = false;
  std::atomic<bool> interrupted_{false};
};

}  // namespace

std::shared_ptr<Collectives> make_host_mpi(std::shared_ptr<MpiState> state, Group group) {
  auto world = std::make_shared<HostMpi>(std::move(state), std::move(group), MPI_COMM_NULL);
  world->duplicate_world();
  return world;
}

}  // namespace muster::detail
