// SPDX-License-Identifier: Apache-2.0
// Messages of a host leader, as rank 0 receives them.
#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "catch.hpp"
#include "control_plane/connections.hpp"
#include "control_plane_fixture.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;

namespace {

// Acts as rank 0 for a host with ranks 1 (its leader) and 2: completes the final barrier when both have
// joined.
class HostOfTwo {
 public:
  HostOfTwo()
      : acceptor_(std::make_unique<AuthenticatingAcceptor>(io_)),
        port_(acceptor_->port()),
        rank_0_(
            nullptr, 10s, [](int) {}, [this](int, const Message& message) { on_message(message); },
            [this](int, const DisconnectCause&) { on_disconnect(); }) {
    rank_0_.open(std::move(acceptor_), 0, {1}, key_);
    thread_ = std::thread([this] { io_.run(); });
    ControlPlaneOptions const options{ControlPlaneFixture::make_roster(3), {0, 1, 1}, 10s};
    LocalListeners const listeners(3);
    for (int rank : {1, 2})
      planes.push_back(ControlPlane::connect(rank, listeners.options_of(rank, options), {"127.0.0.1"}, port_,
                                             key_, Deadline(10s)));
  }
  ~HostOfTwo() {
    asio::post(io_, [this] { rank_0_.close(); });
    thread_.join();
  }
  HostOfTwo(const HostOfTwo&) = delete;
  HostOfTwo& operator=(const HostOfTwo&) = delete;

  // How often rank 0 received `what` until the leader disconnected.
  int count(const std::string& what) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, 10s, [this] { return disconnected_; }));
    return static_cast<int>(std::count(received_.begin(), received_.end(), what));
  }
  bool wait_for_message(const std::string& what) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 10s,
                             [&] { return std::count(received_.begin(), received_.end(), what) > 0; });
  }

  std::vector<std::shared_ptr<ControlPlane>> planes;

 private:
  void on_message(const Message& message) {
    std::lock_guard const lock(mutex_);
    auto what = protocol::type_of(message);
    if (what == "from_rank") what += " " + protocol::type_of(message.at("message"));
    received_.push_back(what);
    changed_.notify_all();
    bool const both = std::count(received_.begin(), received_.end(), "contribution") == 1 &&
                      std::count(received_.begin(), received_.end(), "from_rank contribution") == 1;
    if (!both || (what != "contribution" && what != "from_rank contribution")) return;
    rank_0_.send(1, encode(protocol::ToRanks{{1, 2}, encode(protocol::RoundResult{"leave", true, {{}}})}));
  }
  void on_disconnect() {
    std::lock_guard const lock(mutex_);
    disconnected_ = true;
    changed_.notify_all();
  }

  Key key_ = random_key();
  asio::io_context io_;
  std::unique_ptr<AuthenticatingAcceptor> acceptor_;
  std::uint16_t port_;
  Connections rank_0_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> received_;
  bool disconnected_ = false;
};

}  // namespace

TEST_CASE("when a host's ranks leave after the final barrier, its leader reports no loss") {
  HostOfTwo host;
  std::vector<std::thread> threads;
  for (auto& plane : host.planes)
    threads.emplace_back([&plane] {
      plane->final_barrier("leave", 10s);
      plane->leave();
    });
  for (auto& thread : threads) thread.join();
  CHECK(host.count("rank_connected") == 1);
  CHECK(host.count("rank_disconnected") == 0);
}

TEST_CASE("when a rank of a host ends early, its leader reports the loss to rank 0") {
  HostOfTwo host;
  REQUIRE(host.wait_for_message("rank_connected"));
  auto const rank_2 = host.planes.back();
  rank_2->put("a name", {1});  // its first message
  REQUIRE(host.wait_for_message("from_rank put"));
  rank_2->abort_connections();
  REQUIRE(host.wait_for_message("rank_disconnected"));
  host.planes.front()->abort_connections();
  CHECK(host.count("rank_disconnected") == 1);
}
