// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "clock.hpp"
#include "fiber.hpp"

namespace simulator {

using Time = muster::Clock::time_point;
using Duration = muster::Clock::duration;

struct PrintedWarning {
  Time when;
  std::string text;
};

/// One simulated process: a program, and the control threads of its control planes. The simulator alone
/// changes it.
struct Process {
  enum class State { running, stopped, ended };

  int rank = 0;
  int host = 0;
  State state = State::running;
  int exit_code = 0;  ///< once ended; 128 + N after signal N
  Time ended{};
  Time stopped{};
  std::vector<std::string> lines;  ///< what it printed, without the warnings
  std::vector<PrintedWarning> warnings;
  bool returned = false;          ///< its program has
  bool ended_by_library = false;  ///< by the watchdog
  Time exit_not_before{};

  std::function<int()> program;
  Fiber* program_fiber = nullptr;  ///< until the program has returned
  bool draining = false;           ///< the run is over: the threads unwind, every wait of them times out
  Time drained_until{};
  bool waiting = false;
  std::deque<std::function<void()>> posted;  ///< for the program, while it is in run_posted()
  bool wake_scheduled = false;
  std::uint64_t wait_number = 0;

  struct Control {
    const void* owner;
    std::function<bool()> run;
  };
  std::vector<Control> controls;  ///< the control threads that run; they run one after the other
  bool control_scheduled = false;
  Fiber* blocked_control = nullptr;
  std::vector<std::function<void()>> deferred;  ///< for the control thread, while it is blocked
  std::optional<Time> timer_due;
};

/// Runs processes in simulated time, one at a time, in an order that the seed alone decides. One simulator at
/// a time.
class Simulator final : public muster::Simulation {
 public:
  explicit Simulator(std::uint64_t seed);
  ~Simulator() override;

  /// `program` returns the exit code.
  Process& add_process(int host, std::function<int()> program);
  const std::vector<std::unique_ptr<Process>>& processes() const { return processes_; }
  /// Called when a process ends, also when it is killed.
  void on_end(std::function<void(Process&)> callback) { on_end_ = std::move(callback); }

  /// Runs until every process is ended or stopped, and at most until `limit`.
  void run(Duration limit);

  void after(Duration delay, std::function<void()> event);
  /// Runs `call` as the process's control thread, if the process runs; later, if that thread is blocked.
  void run_on_control_thread(Process& process, const std::function<void()>& call);
  /// The running control thread waits for so long, while all other threads run.
  void block_control_thread(Duration length);
  void exit(Process& process, int exit_code) { end(process, exit_code); }
  void kill(Process& process) { end(process, 128 + 9); }
  void stop(Process& process) {
    process.state = Process::State::stopped;
    process.stopped = now_;
  }

  /// A random number from `low` to `high`.
  std::int64_t draw(std::int64_t low, std::int64_t high);
  Duration draw_time(Duration low, Duration high) { return Duration(draw(low.count(), high.count())); }
  bool draw_chance(double probability) { return std::bernoulli_distribution(probability)(random_); }
  Time start() const { return start_; }

  /// The process that runs. Only within a process.
  Process& self() { return *current_; }
  bool runs_program() const { return current_ != nullptr && running_ == current_->program_fiber; }
  /// Lets the running program compute.
  void compute(Duration length);
  /// Gives `call` to the process's program, for run_posted().
  void post_to_program(Process& process, std::function<void()> call);
  /// Lets the running program make the calls that are posted to it, until done() or `until`.
  void run_posted(Time until, const std::function<bool()>& done);
  /// Ends the running program's process, as _exit().
  [[noreturn]] void end_program(int exit_code);

  // Simulation, for the running process.
  Time now() const override;
  void expect_timer(Duration wait) override;
  void wait(std::unique_lock<std::mutex>& lock, Time until) override;
  void notify_all() override;
  void start_thread(const void* owner, std::function<bool()> run) override;
  void join_thread(const void* owner) override;
  void print_line(const std::string& line) override;
  [[noreturn]] void end_process(int exit_code) override;
  void wait_at_exit(Time until) override;

 private:
  struct Event {
    Time when;
    std::uint64_t number;  // events of one time happen in the order in which they were made
    std::function<void()> call;
    bool operator>(const Event& other) const {
      return when != other.when ? when > other.when : number > other.number;
    }
  };

  bool is_over() const;
  void run_next_event();
  Fiber& take_fiber();
  void run_fiber(Process& process, Fiber& fiber, const std::function<void()>& call = nullptr);
  void run_program(Process& process);
  void run_control(Process& process, const std::function<void()>& call);
  void resume(Process& process);
  void wake(Process& process);
  void schedule_control(Process& process);
  void end(Process& process, int exit_code);

  std::mt19937_64 random_;
  Time start_;
  Time now_;
  std::uint64_t last_event_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_fibers_;
  Process* current_ = nullptr;
  Fiber* running_ = nullptr;
  std::function<void(Process&)> on_end_;
};

}  // namespace simulator
