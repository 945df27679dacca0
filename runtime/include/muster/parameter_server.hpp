// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/error.hpp"
#include "muster/export.hpp"
#include "muster/job.hpp"
#include "muster/sampler.hpp"
#include "muster/types.hpp"

namespace muster {

/// Must be equal on all ranks.
struct ParameterServerOptions {
  /// Ranks 0 … servers-1 hold a slice of the parameters each, and the other ranks are the workers. As many
  /// servers as ranks: every rank is a worker, too, and its server is a thread beside it.
  int servers = 1;
  /// By how many clocks the fastest worker may be ahead of the slowest (stale synchronous parallel, Ho et
  /// al., NIPS 2013). 0: synchronous. The gradients of a clock are added in a fixed order and make one
  /// update. Nothing: unbounded (asynchronous).
  std::optional<std::uint64_t> staleness = 0;
  /// How many gradients make a clock; 0: one from each worker.
  std::uint64_t tasks_per_clock = 0;
  /// False: the worker number i computes task i of every clock. When it is lost, its gradients are left out.
  /// True: workers take() tasks, so that fast ones compute more of them. A lost worker's tasks go to others.
  bool deals_tasks = false;
  /// Slices begin at multiples of this number of elements.
  std::size_t alignment = 16;
  /// Gradients and parameters are sent as float32, or rounded to bfloat16.
  DataType wire_type = DataType::float32;
  /// Limits every wait.
  std::chrono::milliseconds deadline{600'000};
  /// Tells the parameter servers of a job apart, also those that were closed.
  std::string name = "parameters";
};

/// A gradient of one clock, by its number below tasks_per_clock.
struct ParameterTask {
  std::uint64_t clock = 0;
  std::uint64_t index = 0;
  bool operator==(const ParameterTask&) const = default;
};

/// What the update function gets: the gradient of one task, or in synchronous mode the sum of a clock's.
struct ParameterUpdate {
  ParameterTask task;                 ///< in synchronous mode index 0
  std::span<const float> gradient;    ///< of this server's slice
  std::span<const double> arguments;  ///< of the push; of several, the largest of each
};

/// A rank's slice of the parameters, in a thread of its own. It applies pushed gradients with the program's
/// update function, and answers the workers' pulls (Li et al., OSDI 2014). Gradients and parameters travel on
/// encrypted connections of its own, never over the control plane.
///
/// A pushed gradient is applied once, however often it is pushed. A worker that is lost no longer holds up
/// the others: see Job::survive_loss_of().
class MUSTER_EXPORT ParameterServer {
 public:
  /// Called in the server's thread, one call at a time. When it throws, all later calls of the clients fail
  /// with that, and it is not called again.
  using Update = std::function<void(const ParameterUpdate& update)>;

  /// The elements of a vector of `size` that `server` holds.
  static Share slice_of(std::size_t size, const ParameterServerOptions& options, int server);

  /// `arrays`: this rank's slices of the parameters, then of whatever else the clients read and write, such
  /// as the optimizer's state. They belong to the program and must outlive the server; while clients use the
  /// server, only `update` may touch them.
  /// @throws Error: usage (this rank is no server, or a slice has another length), system.
  ParameterServer(Job& job, std::size_t size, std::vector<std::span<float>> arrays, Update update,
                  const ParameterServerOptions& options = {});
  /// Closes the connections. Destroy it before Job::leave(), and after the clients.
  ~ParameterServer();
  ParameterServer(ParameterServer&&) noexcept;
  ParameterServer& operator=(ParameterServer&&) = delete;

  /// From the update function of server 0: as ParameterClient::add_sums().
  void add_sums(std::span<const double> sums);
  /// @throws Error, what the update function threw.
  void check() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

/// A rank's connections to the parameter servers. Every rank may read and write; the workers push.
///
/// A worker's loop: `pull(clock)`, compute, `push({clock, own index})`, next clock. With deals_tasks, take()
/// gives the task. pull() keeps the staleness: it waits until the gradients of all clocks up to clock -
/// staleness - 1 are applied. The result may include newer gradients, and always includes this worker's own.
///
/// @throws Error, from every call. usage: invalid arguments. deadline: names the workers whose gradients are
/// missing, or the server that does not answer. lost_rank: a server or every worker is lost. system: the
/// update function failed. Not thread-safe.
class MUSTER_EXPORT ParameterClient {
 public:
  /// Connects to all servers, within options.deadline. `size`: elements of the parameters.
  ParameterClient(Job& job, std::size_t size, const ParameterServerOptions& options = {});
  /// Waits until the last push has been applied, unless a call has failed because a server did not answer.
  ~ParameterClient();
  ParameterClient(ParameterClient&&) noexcept;
  ParameterClient& operator=(ParameterClient&&) = delete;

  /// This rank's number among the workers; nothing on a rank that is only a server.
  std::optional<std::uint64_t> worker() const noexcept;
  std::uint64_t tasks_per_clock() const noexcept;

  /// Takes the lowest task that nobody has taken, of clock `last` at most; nothing when there is none.
  std::optional<ParameterTask> take(std::uint64_t last);
  /// Waits as the staleness demands, then replaces `parameters` by the servers'. With deals_tasks, wait_for()
  /// must have returned totals for the clocks that it waits for, since their tasks may have to be taken
  /// again.
  void pull(std::uint64_t clock, std::span<float> parameters);
  /// Starts to read the parameters while the program computes: the next pull() at `clock` or before takes
  /// them. They are within the staleness, but need not have this worker's push after this call. Does nothing
  /// in synchronous mode, and where pull(clock) would wait now.
  void prefetch(std::uint64_t clock);

  /// Starts to send a gradient and returns; the memory is free then. First it waits until the previous push
  /// has been applied. `arguments` go to the update function. `sums` are added over the tasks of a clock, see
  /// wait_for(). At most 1024 of each.
  void push(const ParameterTask& task, std::span<const float> gradient,
            std::span<const double> arguments = {}, std::span<const double> sums = {});
  /// The same in parts, each as soon as it is known, in any order. end_push() follows the last part.
  void push_part(const ParameterTask& task, std::size_t offset, std::span<const float> gradient);
  void end_push(const ParameterTask& task, std::span<const double> arguments = {},
                std::span<const double> sums = {});
  /// Waits until the last push has been applied.
  void flush();

  /// Waits until all tasks of the clock are applied on all servers. Returns the totals of their `sums`, added
  /// in the order of tasks and so the same bits for every caller. On a worker with deals_tasks it returns
  /// nothing when a lost worker's task is to be taken first.
  /// Server 0 keeps the totals of the last 65,536 complete clocks; for an older one it throws
  /// Error(ErrorCode::usage).
  std::optional<std::vector<double>> wait_for(std::uint64_t clock);
  /// How many clocks are known to be complete. Does not wait.
  std::uint64_t completed() const noexcept;
  /// Adds to the sums of a clock that is not complete yet, from a rank that pushes nothing.
  void add_sums(std::span<const double> sums);

  /// Copies array number `array` of all servers, as float32, when `clocks` clocks are complete.
  void read(std::size_t array, std::span<float> values, std::uint64_t clocks = 0);
  /// Replaces it. No push or pull may be in flight on any rank.
  void write(std::size_t array, std::span<const float> values);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace muster
