// SPDX-License-Identifier: Apache-2.0
// A SPANK plugin that wraps another one, forwards every hook, and injects a fault in one of them. In
// plugstack.conf: required spank_fault.so HARM PLUGIN [ARGUMENT…]. HARM is
//   kill-task      sends SIGKILL to local task 0 in its task_init, before PLUGIN's
//   slow-plan=FILE user_init writes FILE and waits up to 100 s until it is gone, before PLUGIN's
//   starve=BYTES   the process that PLUGIN's user_init starts gets about BYTES of memory and then none
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "../spank_in_front.hpp"

namespace {

struct Block {
  Block* next;
  std::size_t size;
};

bool starve = false;
std::size_t left = 0;

/// In a new process: takes all memory that malloc can give without asking the kernel, except `left` bytes,
/// and makes the kernel refuse more. Not in slurmstepd itself, whose other threads abort without memory.
void take_memory() {
  if (!starve) return;
  const rlimit none{1, 1};  // more than that is already in use, so nothing can be added
  setrlimit(RLIMIT_AS, &none);
  Block* blocks = nullptr;
  for (std::size_t size = 1 << 20; size >= sizeof(Block); size /= 2)
    while (auto* block = static_cast<Block*>(std::malloc(size))) {
      *block = {blocks, size};
      blocks = block;
    }
  // The smallest blocks were taken last.
  for (std::size_t given = 0; given < left && blocks != nullptr;) {
    given += blocks->size;
    std::free(std::exchange(blocks, blocks->next));
  }
}

void wait_until_gone(const char* file) {
  close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  for (int i = 0; i < 10000 && access(file, F_OK) == 0; ++i) usleep(10'000);
}

int forward_hook(const char* name, spank_t spank, int count, char* arguments[]) {
  if (count < wrapper::own_arguments) {
    slurm_error("fault: which harm and which plugin?");
    return -1;
  }
  const std::string_view harm = arguments[0], hook = name;
  int task = -1;
  if (harm == "kill-task" && hook == "slurm_spank_task_init" &&
      spank_get_item(spank, S_TASK_ID, &task) == ESPANK_SUCCESS && task == 0)
    raise(SIGKILL);
  if (harm.starts_with("slow-plan=") && hook == "slurm_spank_user_init") wait_until_gone(arguments[0] + 10);
  if (harm.starts_with("starve=") && hook == "slurm_spank_user_init") {
    left = std::strtoul(arguments[0] + 7, nullptr, 10);
    starve = pthread_atfork(nullptr, nullptr, take_memory) == 0;
    const int status = wrapper::call(name, spank, count, arguments);
    starve = false;
    return status;
  }
  return wrapper::call(name, spank, count, arguments);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
FORWARD_HOOK(slurm_spank_init)
FORWARD_HOOK(slurm_spank_init_post_opt)
FORWARD_HOOK(slurm_spank_local_user_init)
FORWARD_HOOK(slurm_spank_user_init)
FORWARD_HOOK(slurm_spank_task_init)
FORWARD_HOOK(slurm_spank_exit)
}
#pragma GCC visibility pop
