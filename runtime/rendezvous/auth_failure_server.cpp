// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/auth_failure_server.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>

#include "log.hpp"
#include "muster/error.hpp"
#include "transport/acceptor.hpp"

namespace muster::bootstrap {
namespace {

constexpr std::array<std::uint8_t, 8> why_magic{'m', 'u', 's', 't', 'w', 'h', 'y', 1};
constexpr std::size_t question_bytes = why_magic.size() + 4;
constexpr std::size_t word_bytes = why_magic.size() + 1;
constexpr std::size_t visitors_kept = 256;

using Question = std::array<std::uint8_t, question_bytes>;
using Word = std::array<std::uint8_t, word_bytes>;

Question question_of(int rank) {
  Question question{};
  auto at = std::copy(why_magic.begin(), why_magic.end(), question.begin());
  for (int i = 0; i < 4; ++i) *at++ = static_cast<std::uint8_t>(rank >> (8 * i));
  return question;
}

// -1 for anything else.
int rank_in(const Question& question) {
  if (!std::equal(why_magic.begin(), why_magic.end(), question.begin())) return -1;
  std::uint32_t rank = 0;
  for (std::size_t i = 4; i > 0; --i) rank = (rank << 8) | question[why_magic.size() + i - 1];
  return rank <= 0x7fffffffu ? static_cast<int>(rank) : -1;
}

class Decliner {
 public:
  explicit Decliner(const RendezvousConfig& plan) : plan_(plan), door_(io_, plan.ports) {
    auto const at = std::copy(why_magic.begin(), why_magic.end(), word_.begin());
    *at = static_cast<std::uint8_t>(plan.obstacle);
    if (static_cast<int>(plan.host_of.size()) == plan.size)
      unaware_.insert(plan.host_of.begin(), plan.host_of.end());
    unaware_.erase(plan.leader_host);
    door_.open(static_cast<std::size_t>(plan.size) + visitors_kept,
               [this](const std::shared_ptr<control::Acceptor::PendingConnection>& visitor) { read(visitor); });
  }

  void run(const Deadline& deadline) {
    log::debug("join: {}: telling whoever asks at port {} that rank 0 cannot lead", plan_.name, door_.port());
    bool const hosts_are_known = !unaware_.empty();
    while (!deadline.passed() && !(hosts_are_known && unaware_.empty())) io_.run_one_until(deadline.when());
    door_.close();
    io_.restart();
    io_.run();  // lets the cancelled handlers go
  }

 private:
  void read(const std::shared_ptr<control::Acceptor::PendingConnection>& visitor) {
    auto const question = std::make_shared<Question>();
    asio::async_read(visitor->socket, asio::buffer(*question),
                     [this, visitor, question](const asio::error_code& error, std::size_t) {
                       if (visitor->gone) return;
                       int const rank = error ? -1 : rank_in(*question);
                       if (rank < 1 || rank >= plan_.size) return door_.drop(visitor);
                       answer(visitor, rank);
                     });
  }

  void answer(const std::shared_ptr<control::Acceptor::PendingConnection>& visitor, int rank) {
    asio::async_write(visitor->socket, asio::buffer(word_),
                      [this, visitor, rank](const asio::error_code& error, std::size_t) {
                        if (visitor->gone) return;
                        door_.drop(visitor);
                        auto const index = static_cast<std::size_t>(rank);
                        if (!error && index < plan_.host_of.size()) unaware_.erase(plan_.host_of[index]);
                      });
  }

  const RendezvousConfig& plan_;
  asio::io_context io_;
  control::Acceptor door_;
  Word word_{};
  std::set<std::string> unaware_;  // hosts of which nobody has asked
};

}  // namespace

void serve_auth_failure(const RendezvousConfig& plan, const Deadline& deadline) {
  try {
    Decliner(plan).run(deadline);
  } catch (const Error& error) {
    log::debug("join: {}: {}", plan.name, error.what());  // the others speak too, then
  }
}

AuthFailure query_auth_failure(asio::io_context& io, const control::Endpoint& endpoint, int rank,
                 const Deadline& deadline) {
  auto const question = question_of(rank);
  Word word{};
  bool came = false;
  control::Socket socket(io);
  socket.async_connect(endpoint, [&](const asio::error_code& error) {
    if (error || !control::is_own_user(socket)) return;
    asio::async_write(socket, asio::buffer(question), [&](const asio::error_code& failed, std::size_t) {
      if (failed) return;
      asio::async_read(socket, asio::buffer(word),
                       [&](const asio::error_code& cut, std::size_t) { came = !cut; });
    });
  });
  io.restart();
  io.run_until(deadline.when());
  asio::error_code ignored;
  socket.close(ignored);
  io.restart();
  io.run();  // lets the cancelled handlers go
  if (!came || !std::equal(why_magic.begin(), why_magic.end(), word.begin())) return AuthFailure::none;
  auto const obstacle = static_cast<AuthFailure>(word.back());
  return obstacle == AuthFailure::no_library || obstacle == AuthFailure::no_munged ? obstacle : AuthFailure::none;
}

}  // namespace muster::bootstrap
