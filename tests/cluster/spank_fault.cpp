// SPDX-License-Identifier: Apache-2.0
// A SPANK plugin that stands in front of another one, hands every hook on, and does harm in one of them.
// In plugstack.conf: required spank_fault.so HARM PLUGIN [ARGUMENT…]. HARM is
//   kill-task      SIGKILL to local task 0 in its task_init, before PLUGIN's
//   slow-plan=FILE user_init writes FILE and waits, for 100 s at most, until it is gone before PLUGIN's
//   begins starve=BYTES   in PLUGIN's user_init malloc finds about BYTES more and then nothing
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "../spank_in_front.hpp"

namespace {

/// Takes all memory that malloc can give without asking the kernel, and has the kernel refuse more.
class Famine {
 public:
  explicit Famine(std::size_t left) {
    getrlimit(RLIMIT_AS, &before_);
    rlimit now = before_;
    now.rlim_cur = 1;  // more than that is in use already, so nothing can be added
    setrlimit(RLIMIT_AS, &now);
    for (std::size_t size = 1 << 20; size >= sizeof(Block); size /= 2)
      while (auto* block = static_cast<Block*>(std::malloc(size))) {
        block->next = blocks_;
        block->size = size;
        blocks_ = block;
      }
    // The smallest were taken last.
    for (std::size_t given = 0; given < left && blocks_ != nullptr; given += release()) {
    }
  }
  ~Famine() {
    setrlimit(RLIMIT_AS, &before_);
    while (blocks_ != nullptr) release();
  }
  Famine(const Famine&) = delete;
  Famine& operator=(const Famine&) = delete;

 private:
  struct Block {
    Block* next;
    std::size_t size;
  };
  std::size_t release() {
    Block* first = blocks_;
    const std::size_t size = first->size;
    blocks_ = first->next;
    std::free(first);
    return size;
  }
  rlimit before_{};
  Block* blocks_ = nullptr;
};

void wait_until_gone(const char* file) {
  close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  for (int i = 0; i < 10000 && access(file, F_OK) == 0; ++i) usleep(10'000);
}

int hand_on(const char* name, spank_t spank, int count, char* arguments[]) {
  if (count < in_front::own_arguments) {
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
    const Famine famine(std::strtoul(arguments[0] + 7, nullptr, 10));
    return in_front::call(name, spank, count, arguments);
  }
  return in_front::call(name, spank, count, arguments);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
HAND_ON(slurm_spank_init)
HAND_ON(slurm_spank_init_post_opt)
HAND_ON(slurm_spank_local_user_init)
HAND_ON(slurm_spank_user_init)
HAND_ON(slurm_spank_task_init)
HAND_ON(slurm_spank_exit)
}
#pragma GCC visibility pop
