// SPDX-License-Identifier: Apache-2.0
#include "simulator.hpp"

#include <algorithm>
#include <string_view>

namespace simulator {
namespace {

using namespace std::chrono_literals;

// How long a thread takes to run once it can: mostly at once, sometimes later.
constexpr Duration usual_wake_time = 100us;
constexpr Duration slow_wake_time = 10ms;
constexpr double slow_wakes = 0.02;

// Thrown by end_process() through the handlers of a control thread, and by end_program() through a program.
struct ProcessEnd {
  int exit_code;
};

}  // namespace

Simulator::Simulator(std::uint64_t seed) : random_(seed), start_(1h), now_(start_) {
  muster::simulation = this;
}

// The threads of processes that did not end by themselves unwind now, and free what they have.
Simulator::~Simulator() {
  for (auto& process : processes_) {
    process->draining = true;
    process->drained_until = now_ + 24h;
    if (process->blocked_control) run_fiber(*process, *process->blocked_control);
    if (process->program_fiber) run_fiber(*process, *process->program_fiber);
  }
  muster::simulation = nullptr;
}

Process& Simulator::add_process(int host, std::function<int()> program) {
  auto& process = *processes_.emplace_back(std::make_unique<Process>());
  process.rank = static_cast<int>(processes_.size()) - 1;
  process.host = host;
  process.program = std::move(program);
  after(0s, [this, &process] {
    if (process.state != Process::State::running) return;
    process.program_fiber = &take_fiber();
    run_fiber(process, *process.program_fiber, [this, &process] { run_program(process); });
    schedule_control(process);
  });
  return process;
}

void Simulator::run_program(Process& process) {
  try {
    int const exit_code = process.program();
    process.returned = !process.draining;
    while (!process.draining && now() < process.exit_not_before) compute(process.exit_not_before - now());
    if (!process.draining) end(process, exit_code);
  } catch (const ProcessEnd&) {
    // end_program() ended it.
  }
  process.program_fiber = nullptr;
}

Fiber& Simulator::take_fiber() {
  if (idle_fibers_.empty()) return *fibers_.emplace_back(std::make_unique<Fiber>());
  auto& fiber = *idle_fibers_.back();
  idle_fibers_.pop_back();
  return fiber;
}

// Starts `call`, or continues the fiber's call, as a thread of the process.
void Simulator::run_fiber(Process& process, Fiber& fiber, const std::function<void()>& call) {
  current_ = &process;
  running_ = &fiber;
  call ? fiber.start(call) : fiber.resume();
  current_ = nullptr;
  running_ = nullptr;
  if (fiber.idle()) idle_fibers_.push_back(&fiber);
}

void Simulator::run(Duration limit) {
  auto const until = now_ + limit;
  while (!events_.empty() && events_.top().when <= until && !is_over()) run_next_event();
}

void Simulator::run_next_event() {
  auto const event = events_.top();
  events_.pop();
  now_ = std::max(now_, event.when);
  event.call();
}

bool Simulator::is_over() const {
  for (const auto& process : processes_)
    if (process->state == Process::State::running) return false;
  return true;
}

void Simulator::after(Duration delay, std::function<void()> event) {
  events_.push({now_ + delay, ++last_event_, std::move(event)});
}

std::int64_t Simulator::draw(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
}

void Simulator::resume(Process& process) {
  if (process.state != Process::State::running || !process.program_fiber || !process.waiting) return;
  process.waiting = false;
  process.wake_scheduled = false;
  run_fiber(process, *process.program_fiber);
  schedule_control(process);  // the program may have posted to it
}

void Simulator::schedule_control(Process& process) {
  if (process.control_scheduled || process.controls.empty()) return;
  process.control_scheduled = true;
  auto const delay = draw_time(0s, draw_chance(slow_wakes) ? slow_wake_time : usual_wake_time);
  after(delay, [this, &process] {
    process.control_scheduled = false;
    run_on_control_thread(process, [] {});
  });
}

void Simulator::run_on_control_thread(Process& process, const std::function<void()>& call) {
  if (process.state != Process::State::running || process.controls.empty()) return;
  if (process.blocked_control) return process.deferred.push_back(call);
  run_fiber(process, take_fiber(), [this, &process, call] { run_control(process, call); });
}

void Simulator::run_control(Process& process, const std::function<void()>& call) {
  process.timer_due.reset();
  try {
    call();
    for (auto const controls = process.controls; const auto& control : controls) {
      auto const is_same = [&](const auto& other) { return other.owner == control.owner; };
      // The program may join the thread meanwhile.
      if (std::none_of(process.controls.begin(), process.controls.end(), is_same)) continue;
      if (!control.run()) std::erase_if(process.controls, is_same);
    }
  } catch (const ProcessEnd& ended) {
    if (!process.draining) end(process, ended.exit_code);
  }
  if (process.draining || !process.timer_due) return;
  after(std::max<Duration>(*process.timer_due - now_, 0s), [this, &process, due = *process.timer_due] {
    if (process.timer_due == due) schedule_control(process);
  });
}

void Simulator::block_control_thread(Duration length) {
  auto& process = *current_;
  process.blocked_control = running_;
  after(length, [this, &process] {
    if (process.state == Process::State::running) run_fiber(process, *process.blocked_control);
  });
  running_->pause();
  process.blocked_control = nullptr;
  if (process.draining) throw ProcessEnd{0};
  for (auto& call : process.deferred)
    after(0s, [this, &process, call = std::move(call)] { run_on_control_thread(process, call); });
  process.deferred.clear();
}

void Simulator::end(Process& process, int exit_code) {
  if (process.state == Process::State::ended) return;
  process.state = Process::State::ended;
  process.exit_code = exit_code;
  process.ended = now_;
  if (on_end_) on_end_(process);
}

void Simulator::compute(Duration length) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  auto const until = now() + length;
  while (now() < until) wait(lock, until);
}

void Simulator::post_to_program(Process& process, std::function<void()> call) {
  if (process.state == Process::State::ended) return;
  process.posted.push_back(std::move(call));
  wake(process);
}

void Simulator::run_posted(Time until, const std::function<bool()>& done) {
  auto& process = *current_;
  std::mutex mutex;
  std::unique_lock lock(mutex);
  while (!done()) {
    if (!process.posted.empty() && !process.draining) {
      auto const call = std::move(process.posted.front());
      process.posted.pop_front();
      call();
    } else if (now() < until) {
      wait(lock, until);
    } else {
      return;
    }
  }
}

// The program unwinds when the run is over.
void Simulator::end_program(int exit_code) {
  auto& process = *current_;
  if (!process.draining) {
    end(process, exit_code);
    running_->pause();
  }
  throw ProcessEnd{exit_code};
}

Time Simulator::now() const { return current_ && current_->draining ? current_->drained_until : now_; }

void Simulator::expect_timer(Duration wait) {
  if (!current_) return;
  auto const due = now_ + wait;
  if (!current_->timer_due || due < *current_->timer_due) current_->timer_due = due;
}

void Simulator::wait(std::unique_lock<std::mutex>& lock, Time until) {
  auto& process = *current_;
  if (process.draining) {
    process.drained_until = std::max(process.drained_until, until);
    return;
  }
  lock.unlock();
  process.waiting = true;
  after(std::max<Duration>(until - now_, 0s), [this, &process, number = ++process.wait_number] {
    if (process.wait_number == number) resume(process);
  });
  running_->pause();
  if (process.draining) process.drained_until = std::max(process.drained_until, until);
  lock.lock();
}

void Simulator::notify_all() {
  if (current_) wake(*current_);
}

void Simulator::wake(Process& process) {
  if (process.draining || !process.waiting || process.wake_scheduled) return;
  process.wake_scheduled = true;
  after(draw_time(0s, draw_chance(slow_wakes) ? slow_wake_time : usual_wake_time),
        [this, &process] { resume(process); });
}

void Simulator::start_thread(const void* owner, std::function<bool()> run) {
  current_->controls.push_back({owner, std::move(run)});
  schedule_control(*current_);
}

void Simulator::join_thread(const void* owner) {
  while (current_->blocked_control && !current_->draining) compute(1ms);
  std::erase_if(current_->controls, [owner](const auto& control) { return control.owner == owner; });
}

void Simulator::print_line(const std::string& line) {
  if (current_->draining) return;
  constexpr std::string_view warning = "warning: ";
  if (line.starts_with(warning))
    current_->warnings.push_back({now_, line.substr(warning.size())});
  else
    current_->lines.push_back(line);
}

void Simulator::end_process(int exit_code) {
  current_->ended_by_library = true;
  throw ProcessEnd{exit_code};
}

void Simulator::wait_at_exit(Time until) { current_->exit_not_before = until; }

}  // namespace simulator
