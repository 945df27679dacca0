// SPDX-License-Identifier: Apache-2.0
// Waits for what never answers: a device's driver, who should read what is printed.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "catch.hpp"
#include "inventory/host_inventory.hpp"
#include "silent_file.hpp"
#include "control_plane_fixture.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

// Standard error is a pipe that is full, which nobody reads.
void fill_standard_error() {
  int ends[2];
  if (pipe(ends) != 0) _exit(9);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  std::array<char, 4096> const bytes{};
  while (write(ends[1], bytes.data(), bytes.size()) > 0) {
  }
  while (write(ends[1], bytes.data(), 1) > 0) {
  }
  fcntl(ends[1], F_SETFL, 0);
  dup2(ends[1], STDERR_FILENO);
}

}  // namespace

TEST_CASE("an adapter whose driver does not answer holds no join") {
  FolderWithSilentFile const host("sys/class/infiniband/mlx5_0/ports/1/link_layer");
  auto const around =
      bootstrap::read_host_inventory({.nccl = true, .others = true, .local_rank = 0}, host.root.string());
  CHECK(around.adapters.empty());
  CHECK_FALSE(around.interfaces.empty());
}

TEST_CASE("a process whose program does not hear of a loss ends, also when nobody reads what it prints") {
  pid_t const child = fork();
  if (child == 0) {
    alarm(30);
    fill_standard_error();
    ControlPlaneOptions const options{Star::roster_of(2), {}, 10s, 0ms, 100ms};
    auto const key = random_key();
    auto const rank_0 = ControlPlane::listen(key);
    rank_0->lead(options);
    auto const rank_1 = ControlPlane::follow(1, options, {"127.0.0.1"}, rank_0->port(), key, Deadline(10s));
    std::thread other([&] { rank_1->barrier("join", 10s); });
    rank_0->barrier("join", 10s);
    other.join();
    rank_1->abandon();
    pause();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 75);
}
