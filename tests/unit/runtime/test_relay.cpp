// SPDX-License-Identifier: Apache-2.0
// What a host's leader tells rank 0, as rank 0 gets it.
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

// Plays rank 0 for a host with ranks 1, its leader, and 2: ends the last barrier when both have come to it.
class HostOfTwo {
 public:
  HostOfTwo()
      : gate_(std::make_unique<AuthenticatingAcceptor>(io_)),
        port_(gate_->port()),
        rank_0_(
            nullptr, [](int) {}, [this](int, const Message& message) { hear(message); },
            [this](int, const DisconnectCause&) { note_end(); }) {
    rank_0_.open(std::move(gate_), {1}, key_, 10s);
    thread_ = std::thread([this] { io_.run(); });
    ControlPlaneOptions const options{Star::roster_of(3), {0, 1, 1}, 10s};
    for (int rank : {1, 2})
      planes.push_back(ControlPlane::follow(rank, options, {"127.0.0.1"}, port_, key_, Deadline(10s)));
  }
  ~HostOfTwo() {
    asio::post(io_, [this] { rank_0_.close(); });
    thread_.join();
  }
  HostOfTwo(const HostOfTwo&) = delete;
  HostOfTwo& operator=(const HostOfTwo&) = delete;

  // Of what rank 0 heard until the leader has ended its connection.
  int count(const std::string& what) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, 10s, [this] { return ended_; }));
    return static_cast<int>(std::count(heard_.begin(), heard_.end(), what));
  }
  bool waits_for(const std::string& what) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 10s, [&] { return std::count(heard_.begin(), heard_.end(), what) > 0; });
  }

  std::vector<std::shared_ptr<ControlPlane>> planes;

 private:
  void hear(const Message& message) {
    std::lock_guard const lock(mutex_);
    auto what = message.at("is").get<std::string>();
    if (what == "from") what += " " + message.at("message").at("is").get<std::string>();
    heard_.push_back(what);
    changed_.notify_all();
    bool const both = std::count(heard_.begin(), heard_.end(), "arrive") == 1 &&
                      std::count(heard_.begin(), heard_.end(), "from arrive") == 1;
    if (!both || (what != "arrive" && what != "from arrive")) return;
    Message const done{
        {"is", "done"}, {"name", "leave"}, {"last", true}, {"blobs", {Message::binary(Blob{})}}};
    rank_0_.send(1, {{"is", "to"}, {"ranks", {1, 2}}, {"message", done}});
  }
  void note_end() {
    std::lock_guard const lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  Key key_ = random_key();
  asio::io_context io_;
  std::unique_ptr<AuthenticatingAcceptor> gate_;
  std::uint16_t port_;
  Connections rank_0_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> heard_;
  bool ended_ = false;
};

}  // namespace

TEST_CASE("that the ranks of a host leave with everybody its leader tells nobody") {
  HostOfTwo host;
  std::vector<std::thread> threads;
  for (auto& plane : host.planes)
    threads.emplace_back([&plane] {
      plane->last_barrier("leave", 10s);
      plane->leave();
    });
  for (auto& thread : threads) thread.join();
  CHECK(host.count("came") == 1);
  CHECK(host.count("lost") == 0);
}

TEST_CASE("that a rank of a host ends before its leader tells rank 0") {
  HostOfTwo host;
  REQUIRE(host.waits_for("came"));
  auto const rank_2 = host.planes.back();
  rank_2->put("a name", {1});  // it has said something
  REQUIRE(host.waits_for("from put"));
  rank_2->abandon();
  REQUIRE(host.waits_for("lost"));
  host.planes.front()->abandon();
  CHECK(host.count("lost") == 1);
}
