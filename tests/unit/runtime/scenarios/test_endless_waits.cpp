// SPDX-License-Identifier: Apache-2.0
// Waits that never end by themselves: a driver that does not answer, a full pipe that nothing reads.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "catch.hpp"
#include "inventory/host_inventory.hpp"
#include "runtime/control_plane/control_plane_fixture.hpp"
#include "runtime/launcher/silent_file.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

// Makes standard error a full pipe that nothing reads.
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

// Makes standard error a pipe whose other end is closed, as mpirun does when it ends a job.
void close_standard_error() {
  int ends[2];
  if (pipe(ends) != 0) _exit(9);
  dup2(ends[1], STDERR_FILENO);
  close(ends[0]);
}

}  // namespace

TEST_CASE("when the driver of an adapter does not answer, the host inventory still completes") {
  FolderWithSilentFile const host("sys/class/infiniband/mlx5_0/ports/1/link_layer");
  auto const inventory =
      bootstrap::read_host_inventory({.nccl = true, .has_peers = true, .local_rank = 0}, host.root.string());
  CHECK(inventory.adapters.empty());
  CHECK_FALSE(inventory.interfaces.empty());
}

TEST_CASE("when a program does not observe a loss, its process ends, also when stderr is full or closed") {
  bool const full = GENERATE(true, false);
  pid_t const child = fork();
  if (child == 0) {
    alarm(30);
    full ? fill_standard_error() : close_standard_error();
    ControlPlaneOptions const options{ControlPlaneFixture::make_roster(2), {}, 10s, 0ms, 100ms};
    auto const key = random_key();
    auto const rank_0 = ControlPlane::listen(key);
    rank_0->start_coordinator(options);
    auto const rank_1 = ControlPlane::connect(1, options, {"127.0.0.1"}, rank_0->port(), key, Deadline(10s));
    std::thread other([&] { rank_1->barrier("join", 10s); });
    rank_0->barrier("join", 10s);
    other.join();
    rank_1->abort_connections();
    pause();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 75);
}
