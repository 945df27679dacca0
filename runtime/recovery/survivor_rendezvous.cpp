// SPDX-License-Identifier: Apache-2.0
#include "recovery/survivor_rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "failure/failure.hpp"
#include "log.hpp"
#include "recovery/survivor_coordinator.hpp"
#include "transport/secure_channel.hpp"
#include "transport/connect.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

// How long a host that does not answer at all is tried.
constexpr milliseconds introduction_time{3000};
// The leader keeps the time.
constexpr milliseconds reunion_grace{3000};

// A rank that comes to another.
class RendezvousClient {
 public:
  RendezvousClient(asio::io_context& io, const RecoveryConfig& plan, const std::vector<std::uint8_t>& mine)
      : io_(io), plan_(plan), mine_(mine) {}

  // Nothing when `leader` has ended or cannot be reached.
  std::optional<SurvivorRendezvous::Words> come_to(int leader, const Deadline& deadline) {
    auto const index = static_cast<std::size_t>(leader);
    for (const auto& endpoint : endpoints_of(plan_.addresses[index], plan_.ports[index])) {
      if (!is_there(endpoint, deadline)) continue;
      try {
        // It may be long before it comes here itself; its gate waits for it.
        auto [socket, keys] = connect_once(io_, plan_.rank, endpoint, plan_.key, deadline);
        if (auto words = talk(std::make_shared<SecureChannel>(std::move(socket), keys), deadline)) return words;
      } catch (const Error& error) {
        if (failure_) throw;
        log::debug("shrink: {}: {}", plan_.names[index], error.what());
      }
    }
    return std::nullopt;
  }

 private:
  bool is_there(const Endpoint& endpoint, const Deadline& deadline) {
    asio::error_code result = asio::error::timed_out;
    Socket socket(io_);
    socket.async_connect(endpoint, [&](const asio::error_code& error) { result = error; });
    io_.restart();
    io_.run_for(std::min(introduction_time, deadline.remaining()));
    asio::error_code ignored;
    socket.close(ignored);
    io_.restart();
    io_.run();
    return !result;
  }

  std::optional<SurvivorRendezvous::Words> talk(const std::shared_ptr<SecureChannel>& channel, const Deadline& deadline) {
    std::optional<SurvivorRendezvous::Words> words;
    bool lost = false;
    channel->start(
        [&](const Message& message) {
          if (message.at("is") == "failure") failure_ = failure_from(message);
          if (message.at("is") != "survivors") return;
          words.emplace();
          for (const auto& [rank, word] : message.at("words").items())
            words->emplace(std::stoi(rank), word.get_binary());
        },
        [&](const std::string&) { lost = true; });
    channel->send({{"is", "survivor"},
                   {"word", Message::binary(mine_)},
                   {"ended", std::vector<int>(plan_.ended.begin(), plan_.ended.end())}});
    auto const until = deadline.when() + reunion_grace;
    io_.restart();
    while (!words && !failure_ && !lost && Deadline::Clock::now() < until) io_.run_one_until(until);
    channel->close();
    io_.restart();
    io_.run_for(milliseconds{1000});  // lets the cancelled handlers go
    if (failure_) throw Error(failure_->code, failure_->text, failure_->speaker != plan_.rank);
    return words;
  }

  asio::io_context& io_;
  const RecoveryConfig& plan_;
  const std::vector<std::uint8_t>& mine_;
  std::optional<Failure> failure_;
};

}  // namespace

SurvivorRendezvous::Words SurvivorRendezvous::run(RecoveryConfig plan, const std::vector<std::uint8_t>& mine,
                            const Deadline& deadline) {
  asio::io_context own;  // what waits at the gate is not touched before this rank leads
  for (int candidate = 0; candidate < plan.rank && !deadline.passed(); ++candidate) {
    if (plan.ended.contains(candidate) || plan.silent.contains(candidate)) continue;
    if (auto words = RendezvousClient(own, plan, mine).come_to(candidate, deadline)) return std::move(*words);
    log::debug("shrink: {} is not there", plan.names[static_cast<std::size_t>(candidate)]);
  }
  return ReunionLeader(io_, gate_, std::move(plan), mine).run(deadline);
}

}  // namespace muster::control
