// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "catch.hpp"
#include "transport/close_in_children.hpp"

using namespace muster::control;

TEST_CASE("when a process closes a connection, the other side sees it although a forked child still runs") {
  int pair[2];
  int end_of_child[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  REQUIRE(::pipe(end_of_child) == 0);
  close_in_children(pair[0]);
  pid_t const child = ::fork();
  if (child == 0) {
    char byte = 0;
    ::close(end_of_child[1]);
    _exit(::read(end_of_child[0], &byte, 1) == 0 ? 0 : 1);
  }
  ::close(pair[0]);
  pollfd other{pair[1], POLLIN, 0};
  CHECK(::poll(&other, 1, 10'000) == 1);
  ::close(end_of_child[1]);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  ::close(pair[1]);
  ::close(end_of_child[0]);
}

TEST_CASE("a forked child keeps a file that has the number of a closed connection") {
  int pair[2];
  int pipe_ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  REQUIRE(::pipe(pipe_ends) == 0);
  close_in_children(pair[0]);
  REQUIRE(::dup2(pipe_ends[1], pair[0]) == pair[0]);
  pid_t const child = ::fork();
  if (child == 0) _exit(::write(pair[0], "x", 1) == 1 ? 0 : 1);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  pollfd written{pipe_ends[0], POLLIN, 0};
  CHECK(::poll(&written, 1, 0) == 1);
  for (int const descriptor : {pair[0], pair[1], pipe_ends[0], pipe_ends[1]}) ::close(descriptor);
}
