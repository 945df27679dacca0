// SPDX-License-Identifier: Apache-2.0
#include "transport/fd_limit.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "log.hpp"
#include "muster/error.hpp"

namespace muster::control {
namespace {

// For unauthenticated connections, the program's files, and libraries.
constexpr std::size_t reserved_descriptors = 640;

}  // namespace

void raise_fd_limit(std::size_t connections) {
  rlimit limit{};
  auto const needed = connections + reserved_descriptors;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed)
    return;
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max <= connections) {
    throw Error(ErrorCode::environment, fmt::format("join: rank 0 needs a connection to each of {} hosts and "
                                                    "ranks but may have {} open files: raise the limit "
                                                    "(ulimit -Hn) to {} on its node",
                                                    connections, limit.rlim_max, needed));
  }
  log::debug("control: the limit of open files is raised from {} to {}", limit.rlim_cur, needed);
  limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? needed : std::min<rlim_t>(needed, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::size_t free_descriptors(std::size_t most) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return most;
  std::size_t found = 0;
  for (rlim_t number = 0; number < limit.rlim_cur && found < most; ++number)
    if (::fcntl(static_cast<int>(number), F_GETFD) < 0) ++found;
  return found;
}

}  // namespace muster::control
