// SPDX-License-Identifier: Apache-2.0
// How long a rank takes to join while a stranger floods the listener: join_flood [RATE [RUNS]], with RATE
// connections a second (1000). Rank 0, the rank and the stranger share this machine. The stranger is a
// process of its own. Half of its connections send nothing, the others an almost complete first message; it
// keeps 400 of them open.
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "control_plane/control_plane.hpp"
#include "rendezvous/rendezvous.hpp"
#include "transport/authenticating_acceptor.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

class Flood {
 public:
  Flood(std::uint16_t port, int rate)
      : count_(static_cast<std::atomic<int>*>(
            ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (rate == 0) return;
    process_ = ::fork();
    if (process_ == 0) run(port, rate);
    auto const start = Clock::now();
    while (*count_ < rate / 2) std::this_thread::sleep_for(1ms);  // the table of connections is full
    rate_ = *count_ / std::chrono::duration<double>(Clock::now() - start).count();
  }
  ~Flood() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
    ::munmap(count_, sizeof(int));
  }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;

  // Connections a second that rank 0 accepted before the rank began to join.
  double rate() const { return rate_; }

 private:
  [[noreturn]] void run(std::uint16_t port, int rate) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::deque<int> open;
    auto const start = Clock::now();
    for (int i = 0;; ++i) {
      std::this_thread::sleep_until(start + std::chrono::microseconds(1'000'000LL * i / rate));
      int const socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) ++*count_;
      std::string const first("muster\0\2\1\0\0\0 half of a public key", 33);
      if (i % 2 == 0) (void)!::send(socket, first.data(), first.size(), MSG_NOSIGNAL);
      open.push_back(socket);
      if (open.size() > 400) {
        ::close(open.front());
        open.pop_front();
      }
    }
  }

  std::atomic<int>* count_;
  pid_t process_ = -1;
  double rate_ = 0;
};

std::uint16_t free_port() {
  asio::io_context io;
  return control::AuthenticatingAcceptor(io).port();
}

bootstrap::RendezvousConfig make_config(int rank, std::uint16_t port, bool with_codec) {
  static auto const key = control::random_key();
  bootstrap::RendezvousConfig config;
  config.name = "bench";
  config.job = fmt::format("bench/{}", ::getppid());
  config.rank = rank;
  config.size = 2;
  config.rank0_host = "127.0.0.1";
  config.ports = {port};
  if (with_codec)
    config.codec = bootstrap::make_peercred_codec();
  else
    config.key = key;
  return config;
}

bootstrap::JoinRecord make_record(int rank) {
  bootstrap::JoinRecord record;
  record.hello.rank = rank;
  record.hello.host = "h";
  return record;
}

// Milliseconds from the start of rank 1 until it has joined.
double join_rendezvous(bool with_codec, int rate, double& flood_rate) {
  auto const port = free_port();
  std::thread server([&] {
    bootstrap::run_rendezvous_server(make_config(0, port, with_codec), make_record(0), Deadline(60s));
  });
  double taken = 0;
  {
    Flood const flood(port, rate);
    auto const start = Clock::now();
    bootstrap::run_rendezvous_client(make_config(1, port, with_codec), make_record(1), Deadline(60s));
    taken = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    flood_rate = flood.rate();
  }
  server.join();
  return taken;
}

double join_control_plane(int rate, double& flood_rate) {
  control::ControlPlaneOptions options;
  options.roster = {make_record(0).hello, make_record(1).hello};
  auto const key = control::random_key();
  auto const rank_0 = control::ControlPlane::listen(key);
  rank_0->start_coordinator(options);
  Flood const flood(rank_0->port(), rate);
  auto const start = Clock::now();
  std::thread other([&] { rank_0->barrier("join", 60s); });
  auto const rank_1 =
      control::ControlPlane::connect(1, options, {"127.0.0.1"}, rank_0->port(), key, Deadline(60s));
  rank_1->barrier("join", 60s);
  auto const taken = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  flood_rate = flood.rate();
  other.join();
  return taken;
}

void print_row(const char* listener, int rate, int runs, const std::function<double(int, double&)>& join) {
  std::vector<double> times;
  double flood_rate = 0;
  for (int run = 0; run < runs; ++run) times.push_back(join(rate, flood_rate));
  std::sort(times.begin(), times.end());
  fmt::print("| {} | {:.0f} | {:.1f} | {:.1f} |\n", listener, flood_rate, times[times.size() / 2],
             times.back());
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  int const rate = count > 1 ? std::atoi(arguments[1]) : 1000;
  int const runs = count > 2 ? std::atoi(arguments[2]) : 15;
  fmt::print("| listener | connections/s | join, median ms | worst ms |\n|---|---|---|---|\n");
  std::fflush(stdout);
  for (int const now : {0, rate}) {
    print_row("key server", now, runs, [](int r, double& found) { return join_rendezvous(true, r, found); });
    print_row("rank 0, user's key", now, runs,
              [](int r, double& found) { return join_rendezvous(false, r, found); });
    print_row("control plane", now, runs, join_control_plane);
  }
}
