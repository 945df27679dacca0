// SPDX-License-Identifier: Apache-2.0
#include "run/omp_wait_policy.hpp"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <initializer_list>

namespace muster {

void set_omp_wait_policy(char** argv) {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
    if (std::getenv(name)) return;
  }
  // Not /proc/self/exe itself, which would make "exe" the process's name.
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = '\0';
  // A few microseconds: long enough for a thread that is nearly done, short compared with a time slice.
  if (::setenv("GOMP_SPINCOUNT", "1000", 1) == 0) ::execv(path, argv);
  // Without /proc the program continues with the default: slower on a busy machine, otherwise correct.
}

}  // namespace muster
