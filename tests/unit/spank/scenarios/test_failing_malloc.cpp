// SPDX-License-Identifier: Apache-2.0
// The plugin as it is shipped, both files, while malloc fails at each of its calls in turn. No hook may fail,
// throw or crash, and a task is either placed as with enough memory, or not placed and a line gives the
// reason. Slurm itself cannot be used here, since it ends the process if it finds no memory; a fake of it has
// a step in fixed arrays.
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include "catch.hpp"

extern "C" {
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
}

namespace {

// The failing_count allocations from the failing_from-th on fail. 0: none fails.
long failing_from = 0, failing_count = 0;
// Counts those of the plugin's child that plans, too.
long& allocations = *static_cast<long*>(
    mmap(nullptr, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));

bool fails() {
  if (failing_from == 0) return false;
  const long number = ++allocations;
  if (number < failing_from || number >= failing_from + failing_count) return false;
  errno = ENOMEM;
  return true;
}

struct Text {
  char text[4096] = "";
  std::size_t length = 0;
  int variables = 0;
};
Text logged, environment;  // the lines and variables of the tasks' hook
spank_option* option = nullptr;
spank_context_t context = S_CTX_REMOTE;
bool isolation_is_off = false;  // srun turned isolation off
// The process that represents slurmstepd, and how many variables it has read that it must not read.
pid_t stepd = 0;
int variables_read_by_stepd = 0;
constexpr auto success = static_cast<spank_err_t>(0);  // ESPANK_SUCCESS is of another type in Slurm 22.05

void append(Text& buffer, const char* format, va_list arguments) {
  const int written =
      std::vsnprintf(buffer.text + buffer.length, sizeof buffer.text - buffer.length, format, arguments);
  if (written > 0)
    buffer.length = std::min(buffer.length + static_cast<std::size_t>(written), sizeof buffer.text - 1);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void* malloc(std::size_t size) { return fails() ? nullptr : __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) { return fails() ? nullptr : __libc_calloc(count, size); }
void* realloc(void* old, std::size_t size) { return fails() ? nullptr : __libc_realloc(old, size); }

spank_context_t spank_context() { return context; }
const char* spank_strerror(spank_err_t) { return "an error"; }
spank_err_t spank_option_register(spank_t, spank_option* registered) {
  option = registered;
  return success;
}
spank_err_t spank_get_item(spank_t, spank_item_t item, ...) {
  va_list arguments;
  va_start(arguments, item);
  spank_err_t result = success;
  switch (item) {
    case S_JOB_UID:
      *va_arg(arguments, uid_t*) = getuid();
      break;
    case S_JOB_ID:
    case S_JOB_STEPID:
    case S_STEP_CPUS_PER_TASK:
      *va_arg(arguments, std::uint32_t*) = 1;
      break;
    case S_JOB_LOCAL_TASK_COUNT:
    case S_JOB_TOTAL_TASK_COUNT:
      *va_arg(arguments, std::uint32_t*) = 1;
      break;
    case S_JOB_LOCAL_TO_GLOBAL_ID: {
      const auto local = va_arg(arguments, std::uint32_t);
      *va_arg(arguments, std::uint32_t*) = local;
      break;
    }
    case S_TASK_ID:
      *va_arg(arguments, int*) = 0;
      break;
    default:
      result = ESPANK_BAD_ARG;
  }
  va_end(arguments);
  return result;
}
spank_err_t spank_getenv(spank_t, const char* name, char* buffer, int size) {
  struct Variable {
    const char *name, *value;
    bool only_without_isolation;
  };
  static constexpr Variable variables[] = {{"SLURM_STEP_NODELIST", "localhost", false},
                                           {"SLURM_STEP_TASKS_PER_NODE", "1", false},
                                           {"SLURM_MUSTER_LIFTED", "SLURM_GPU_BIND:1", true},
                                           {"SLURMD_TRES_BIND", "gpu:none", true},
                                           {"CUDA_VISIBLE_DEVICES", "4,5", true}};
  // slurmstepd tests or copies these, but does not parse them.
  const std::string_view requested = name;
  constexpr std::string_view copied[] = {
      "SLURM_MUSTER_LIFTED", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
      "GPU_DEVICE_ORDINAL",  "MUSTER_SET",           "SLURM_STEP_GPUS"};
  const bool allowed = std::find(std::begin(copied), std::end(copied), requested) != std::end(copied);
  variables_read_by_stepd += getpid() == stepd && !allowed;
  const char* value = nullptr;
  for (const auto& variable : variables)
    if (std::strcmp(name, variable.name) == 0 && (isolation_is_off || !variable.only_without_isolation))
      value = variable.value;
  if (value == nullptr) return ESPANK_ENV_NOEXIST;
  std::snprintf(buffer, static_cast<std::size_t>(size), "%s", value);
  return success;
}
spank_err_t spank_setenv(spank_t, const char* name, const char* value, int) {
  const int written = std::snprintf(environment.text + environment.length,
                                    sizeof environment.text - environment.length, "%s=%s\n", name, value);
  environment.length =
      std::min(environment.length + static_cast<std::size_t>(written), sizeof environment.text - 1);
  return success;
}
spank_err_t spank_unsetenv(spank_t, const char*) { return success; }
#define FAKE_LOG(log)                  \
  void log(const char* format, ...) {  \
    va_list arguments;                 \
    va_start(arguments, format);       \
    append(logged, format, arguments); \
    va_end(arguments);                 \
  }
FAKE_LOG(slurm_error)
FAKE_LOG(slurm_info)
FAKE_LOG(slurm_verbose)
FAKE_LOG(slurm_debug)
FAKE_LOG(slurm_spank_log)
}
#pragma GCC visibility pop

namespace {

using Hook = int (*)(spank_t, int, char*[]);

enum Outcome { placed, explained, not_reached, hook_failed, silent, placed_differently };

class Plugin {
 public:
  Plugin() : handle_(dlopen(MUSTER_PLUGIN, RTLD_NOW | RTLD_LOCAL)) {
    INFO((handle_ == nullptr ? dlerror() : ""));
    REQUIRE(handle_ != nullptr);
  }
  int call(const char* hook) const {
    static char cache[] = "cache=off";
    static char* arguments[] = {cache};  // static, since Slurm keeps them too
    return reinterpret_cast<Hook>(dlsym(handle_, hook))(nullptr, 1, arguments);
  }

 private:
  void* handle_;
};

/// One step in a process of its own, besides that of the plan. Allocations fail in the hook named
/// `starved_hook`. reference: the environment with enough memory.
Outcome step(const Plugin& plugin, const char* starved_hook, long from, long count,
             const std::string* reference) {
  const auto call = [&](const char* hook) {
    if (std::strcmp(hook, starved_hook) == 0) {
      failing_from = from;
      failing_count = count;
    }
    const int result =
        std::strcmp(hook, "option") == 0 ? option->cb(option->val, "auto", 1) : plugin.call(hook);
    failing_from = 0;
    return result;
  };
  bool good = plugin.call("slurm_spank_init") == 0;
  good = call("option") == 0 && good;  // loads the second file of the plugin
  good = call("slurm_spank_user_init") == 0 && good;
  good = call("slurm_spank_task_init") == 0 && good;
  good = call("slurm_spank_exit") == 0 && good;
  if (!good) return hook_failed;
  if (allocations < from) return not_reached;
  if (std::strstr(logged.text, "Slurm's own binding stays") != nullptr) return explained;
  if (environment.length == 0) return silent;
  return reference == nullptr || *reference == environment.text ? placed : placed_differently;
}

template <typename Body>
int in_child(Body body) {
  std::fflush(nullptr);
  allocations = 0;
  const pid_t child = fork();
  if (child == 0) {
    // Catch's handlers would report a failure here. Without memory, glibc's getpwuid_r() ends the process
    // that plans (2.36), and the plugin must report that.
    for (const int number : {SIGABRT, SIGSEGV}) signal(number, SIG_DFL);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("slurmstepd itself parses nothing of the step's environment, and a task is still placed") {
  const Plugin plugin;
  const int outcome = in_child([&] {
    stepd = getpid();
    if (plugin.call("slurm_spank_init") != 0 || option->cb(option->val, "auto", 1) != 0) return 1;
    if (plugin.call("slurm_spank_user_init") != 0) return 2;
    if (variables_read_by_stepd != 0) return 3;
    if (plugin.call("slurm_spank_task_init") != 0) return 4;
    return std::strstr(environment.text, "MUSTER_CPUS=") != nullptr && variables_read_by_stepd > 0 ? 0 : 5;
  });
  CHECK(outcome == 0);
}

TEST_CASE("Whichever allocation fails, a task is placed or the reason is logged") {
  const Plugin plugin;
  // A step with enough memory gives the reference, which its process sends through a pipe.
  REQUIRE(in_child([&] { return step(plugin, "none", 1, 0, nullptr); }) == not_reached);
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  in_child([&] {
    step(plugin, "none", 1, 0, nullptr);
    return write(pipe_ends[1], environment.text, environment.length) < 0;
  });
  char text[sizeof environment.text];
  const ssize_t got = read(pipe_ends[0], text, sizeof text);
  REQUIRE(got > 0);
  const std::string reference(text, static_cast<std::size_t>(got));
  REQUIRE(reference.find("MUSTER_CPUS=") != std::string::npos);

  for (const char* hook : {"option", "slurm_spank_user_init", "slurm_spank_task_init"})
    for (const long count : {1L, 1000000L}) {
      int outcome = placed, explained_count = 0;
      for (long from = 1; outcome != not_reached; ++from) {
        outcome = in_child([&] { return step(plugin, hook, from, count, &reference); });
        INFO(hook << ": " << (count == 1 ? "only allocation " : "all from allocation ") << from);
        REQUIRE((outcome == placed || outcome == explained || outcome == not_reached));
        explained_count += outcome == explained;
        REQUIRE(from < 20000);
      }
      CHECK(explained_count > (std::strcmp(hook, "option") == 0 ? 0 : 20));
    }
}

TEST_CASE("Whichever allocation fails, a task with isolation turned off gets its own GPUs or ends") {
  const Plugin plugin;
  isolation_is_off = true;
  // Nothing is placed, so that only this is tested: with --muster=off, and without a request, where only the
  // marker is set.
  const bool requested = GENERATE(true, false);
  for (const long count : {1L, 1000000L}) {
    int outcome = placed;
    for (long from = 1; outcome != not_reached; ++from) {
      outcome = in_child([&]() -> int {
        if (plugin.call("slurm_spank_init") != 0) return hook_failed;
        if (requested && option->cb(option->val, "off", 1) != 0) return hook_failed;
        if (plugin.call("slurm_spank_user_init") != 0) return hook_failed;
        failing_from = from;
        failing_count = count;
        const int result = plugin.call("slurm_spank_task_init");  // may end the process with 78
        failing_from = 0;
        if (result != 0) return hook_failed;
        if (std::strcmp(environment.text, "CUDA_VISIBLE_DEVICES=4\n") != 0) return silent;
        return allocations < from ? not_reached : placed;
      });
      INFO((count == 1 ? "only allocation " : "all from allocation ") << from);
      REQUIRE((outcome == placed || outcome == 78 || outcome == not_reached));
      REQUIRE(from < 1000);
    }
  }
  isolation_is_off = false;
}

TEST_CASE("Whichever allocation fails, srun's hooks and the option either work or log an error") {
  const Plugin plugin;
  setenv("SLURM_GPUS_PER_TASK", "1", 1);
  setenv("_SLURM_SPANK_OPTION_muster_muster", "auto,cpu=off", 1);
  for (const spank_context_t tested_context : {S_CTX_LOCAL, S_CTX_ALLOCATOR, S_CTX_REMOTE}) {
    int outcome = placed;
    for (long from = 1; outcome != not_reached; ++from) {
      outcome = in_child([&] {
        context = tested_context;
        // Once with memory: glibc ends any process that gets no memory for its thread-local data.
        if (plugin.call("slurm_spank_init") != 0 || option->cb(option->val, "auto", 1) != 0)
          return hook_failed;
        failing_from = from;
        failing_count = 1;
        const int loaded = plugin.call("slurm_spank_init");
        const int taken =
            option == nullptr ? -1 : option->cb(option->val, "auto,cpu=off,json=/a/file/with/a/name", 1);
        failing_from = 0;
        if (allocations < from) return loaded == 0 && taken == 0 ? not_reached : hook_failed;
        const bool remote_fails = tested_context == S_CTX_REMOTE && (loaded != 0 || taken != 0);
        const bool reported = loaded + taken == 0 || logged.length > 0;
        return remote_fails || !reported ? hook_failed : placed;
      });
      INFO("in context " << tested_context << ", allocation " << from);
      REQUIRE((outcome == placed || outcome == not_reached));
      REQUIRE(from < 5000);
    }
  }
  unsetenv("SLURM_GPUS_PER_TASK");
  unsetenv("_SLURM_SPANK_OPTION_muster_muster");
}

TEST_CASE("When a list is too long, it is rejected in one short line") {
  const Plugin plugin;
  const int outcome = in_child([&] {
    context = S_CTX_LOCAL;
    const std::string list(1 << 22, ',');
    if (plugin.call("slurm_spank_init") != 0 || option->cb(option->val, list.c_str(), 1) != -1) return 1;
    return logged.length < 1200 && std::strchr(logged.text, '\n') == nullptr ? 0 : 2;
  });
  CHECK(outcome == 0);
}
