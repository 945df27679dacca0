// SPDX-License-Identifier: Apache-2.0
// Rendezvous: ranks meet without PMIx.
#include <signal.h>
#include <sys/wait.h>

#include <atomic>

#include "flood.hpp"
#include "rendezvous/host_leader.hpp"
#include "rendezvous_fixture.hpp"
#include "transport/acceptor.hpp"
#include "transport/authenticating_acceptor.hpp"
#include "transport/connect.hpp"
#include "transport/handshake.hpp"

using namespace rendezvous_test;

TEST_CASE("when ranks meet, every rank gets every record") {
  auto const job = new_job();
  std::vector<RendezvousConfig> configs;
  for (int r = 0; r < 9; ++r) configs.push_back(make_config(job, r, 9));
  check_complete(join_all(configs, 10s));
}

namespace {

// A process of another user that holds some of the socket names of a job's rank 0. It never answers, and
// listens only on every other one.
class Squatter {
 public:
  Squatter(const std::string& name, std::size_t count) {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    process_ = fork();
    if (process_ == 0) {
      bool held = setuid(65534) == 0;
      auto const endpoints = control::local_endpoints(name);
      for (std::size_t i = 0; i < count && i < endpoints.size(); ++i) {
        int const socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
        held = held && bind(socket, endpoints[i].data(), static_cast<socklen_t>(endpoints[i].size())) == 0;
        held = held && (i % 2 == 1 || listen(socket, 8) == 0);
      }
      held = write(ready[1], held ? "y" : "n", 1) == 1 && held;
      for (;;) pause();
    }
    char held = 'n';
    REQUIRE(read(ready[0], &held, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    REQUIRE(held == 'y');
  }
  ~Squatter() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

 private:
  pid_t process_ = -1;
};

}  // namespace

TEST_CASE("when another user holds the job's socket name, the ranks still meet") {
  if (geteuid() != 0) {
    WARN("not tested: only root can start a process of another user");
    return;
  }
  auto const job = new_job();
  Squatter const squatter("muster/" + job, 4);
  check_complete(join_all({make_config(job, 0, 3), make_config(job, 1, 3), make_config(job, 2, 3)}, 10s));
}

TEST_CASE("when other users hold every name, the error says so; this user's other job keeps its name") {
  if (geteuid() == 0) {
    auto const job = new_job();
    Squatter const squatter("muster/" + job, 100);
    auto const outcome = join_all({make_config(job, 0, 1)}, 10s)[0];
    REQUIRE(outcome.error);
    CHECK(has(outcome.error->what(), "Address already in use, by other users"));
  }
  auto const job = new_job();
  asio::io_context io;
  control::Acceptor const first(io, job);
  CHECK_THROWS_WITH(control::Acceptor(io, job), Catch::Matchers::EndsWith("Address already in use"));
}

namespace {

// A process of this user that binds the socket of `name`, and listens `delay` later.
class LateListener {
 public:
  LateListener(const std::string& name, std::chrono::milliseconds delay)
      : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    auto const endpoint = control::local_endpoint(name);
    REQUIRE(bind(socket_, endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0);
    thread_ = std::thread([this, delay] {
      std::this_thread::sleep_for(delay);
      listen(socket_, 8);
    });
  }
  ~LateListener() {
    thread_.join();
    close(socket_);
  }

 private:
  int socket_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("a socket that is bound and does not listen yet is not taken for another user's") {
  auto const job = new_job();
  LateListener const first(job, 100ms);
  asio::io_context io;
  CHECK_THROWS_WITH(control::Acceptor(io, job), Catch::Matchers::EndsWith("Address already in use"));
}

TEST_CASE("when a rank takes long from bind() to listen(), its host has one leader") {
  auto config = make_config(new_job(), 1, 4);
  config.host_socket = "muster/host/" + config.job;
  LateListener const leader(config.host_socket, 100ms);
  asio::io_context io;
  CHECK(HostLeader::try_become_leader(io, config) == nullptr);
}

TEST_CASE("while strangers flood rank 0's port with connections, the ranks still meet") {
  auto const job = new_job();
  for (bool const with_codec : {true, false}) {
    auto const port = free_port();
    auto const key = control::random_key();
    std::vector<RendezvousConfig> configs;
    for (int r = 0; r < 3; ++r) {
      auto config = make_config(job, r, 3);
      config.local_name.clear();
      config.rank0_host = "127.0.0.1";
      config.ports = {port};
      if (!with_codec) config.codec = nullptr;
      config.key = key;
      configs.push_back(config);
    }
    auto const endpoint = control::tcp_endpoint(asio::ip::address_v4::loopback(), port);
    std::optional<Flood> flood(std::in_place, endpoint.data(), endpoint.size(), "mustkey");
    auto const outcomes = join_all(configs, 20s, 200ms);  // the last rank finds the table full
    flood.reset();
    check_complete(outcomes);
  }
}

TEST_CASE("when all ranks know the key, they meet on the first free port") {
  asio::io_context io;
  // Other programs hold the first ports and never answer. One after the other, they would take 14 s.
  std::vector<control::AuthenticatingAcceptor> others;
  std::vector<std::uint16_t> ports;
  for (int i = 0; i < 7; ++i) ports.push_back(others.emplace_back(io).port());
  ports.push_back(free_port());
  auto const key = control::random_key();
  std::vector<RendezvousConfig> configs;
  for (int r = 0; r < 3; ++r) {
    auto config = make_config("test/ports", r, 3);
    config.local_name.clear();
    config.codec = nullptr;
    config.key = key;
    config.rank0_host = "127.0.0.1";
    config.ports = ports;
    configs.push_back(config);
  }
  check_complete(join_all(configs, 10s));
}

TEST_CASE("beside credentials, a user's key is needed too") {
  auto const job = new_job();
  auto const key = control::random_key();
  auto const with_key = [&](int rank, const control::Key& own) {
    auto config = make_config(job, rank, 2);
    config.key = own;
    return config;
  };
  check_complete(join_all({with_key(0, key), with_key(1, key)}, 10s));
  auto const outcomes = join_all({with_key(0, key), with_key(1, control::random_key())}, 5s);
  REQUIRE((outcomes[0].error && outcomes[1].error));
  CHECK(has(outcomes[0].error->what(),
            "a connection that claimed to be it was refused because it did not prove"));
  CHECK(has(outcomes[1].error->what(), "does not have this job's key"));
}

TEST_CASE("when ranks share a host, one of them connects them all to rank 0") {
  struct Counting : CredentialCodec {
    std::vector<std::uint8_t> encode(std::span<const std::uint8_t> bytes) override {
      return {bytes.begin(), bytes.end()};
    }
    std::vector<std::uint8_t> decode(std::span<const std::uint8_t> credential) override {
      ++decoded;
      return {credential.begin(), credential.end()};
    }
    std::atomic<int> decoded{0};
  };
  auto const counting = std::make_shared<Counting>();
  auto const job = new_job();
  std::vector<RendezvousConfig> configs;
  for (int r = 0; r < 12; ++r) {
    auto config = make_config(job, r, 12);
    config.host_socket = fmt::format("muster/{}/host{}", job, r / 4);
    if (r == 0) config.codec = counting;
    configs.push_back(config);
  }
  check_complete(join_all(configs, 20s));
  // One per host; rank 0's own host needs none if rank 0 leads it.
  CHECK((counting->decoded == 2 || counting->decoded == 3));
}

TEST_CASE("when a host leader's socket is taken, its rank connects directly and the ranks still meet") {
  auto const key = control::random_key();
  auto const port = free_port();
  auto const job = new_job();
  std::vector<RendezvousConfig> configs;
  for (int r = 0; r < 4; ++r) {
    auto config = make_tcp_config(job, r, 4, {port});
    config.codec = nullptr;
    config.key = key;
    configs.push_back(config);
  }
  // Of rank 0's host, and of the other one.
  for (auto const leader : {std::size_t{0}, std::size_t{2}}) {
    asio::io_context io;
    control::AuthenticatingAcceptor const taken(io,
                                                control::local_name(key) + "/" + configs[leader].host_socket);
    check_complete(join_all(configs, 20s));
  }
}

TEST_CASE("when a job's name is too long for a socket, its ranks meet and another job's do not") {
  auto const job = new_job() + std::string(200, 'x');
  check_complete(join_all({make_config(job + "1", 0, 2), make_config(job + "1", 1, 2)}, 10s));
  CHECK(control::local_endpoint(job + "1") != control::local_endpoint(job + "2"));
}
