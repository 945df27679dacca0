// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <optional>
#include <thread>

#include "failure/failure.hpp"
#include "launcher/local_hello.hpp"
#include "log.hpp"
#include "rendezvous/auth_failure_server.hpp"
#include "rendezvous/host_leader.hpp"
#include "rendezvous/key_server.hpp"
#include "rendezvous/rendezvous.hpp"
#include "rendezvous/missing_ranks.hpp"
#include "rendezvous/process_report.hpp"
#include "rendezvous/failure_marker.hpp"
#include "roster/roster.hpp"
#include "transport/secure_channel.hpp"
#include "transport/fd_limit.hpp"
#include "transport/authenticating_acceptor.hpp"

namespace muster::bootstrap {
namespace {

using control::Message;
using std::chrono::milliseconds;

// How long the ranks that came have to say what runs on their hosts.
constexpr milliseconds witness_time{1500};
constexpr milliseconds leave_taking_time{5000};
// How long a rank 0 that came too late waits for the one that tells it: the launcher may end the job with the
// first process.
constexpr milliseconds teller_grace{5000};
// Well below the limit of a frame.
constexpr std::size_t chunk_bytes = 1u << 20;

class Leader {
 public:
  Leader(const RendezvousConfig& plan, const JoinRecord& mine)
      : plan_(plan),
        mine_(mine),
        key_(plan.seal ? control::random_key() : plan.key),
        gate_(io_, plan.seal ? std::vector<std::uint16_t>{0} : plan.ports) {
    control::raise_fd_limit(static_cast<std::size_t>(plan.size));
    if (plan.seal) open_desk();
    if (!plan.host_socket.empty()) open_host();
    auto const ranks = static_cast<std::uint32_t>(plan.size);
    gate_.tell_unproven([this](int rank) { attendance_.unproven.insert(rank); });
    gate_.open(
        plan.size, [ranks](std::uint32_t rank) { return rank > 0 && rank < ranks; }, key_,
        [this](int rank, control::Socket socket, const control::SessionKeys& keys) {
          admit(rank, std::move(socket), keys);
        });
  }

  std::vector<JoinRecord> run(const Deadline& deadline) {
    auto const complete = [this] { return static_cast<int>(records_.size()) == plan_.size - 1; };
    run_until(deadline, [&] { return complete() || failure_; });
    bool told = false;
    if (!complete() && !failure_) {
      name_the_missing(deadline);
      told = plan_.keeps_what_was_told && failure_was_reported(plan_.job);  // rank 0 itself came too late
    }
    if (failure_) {
      if (plan_.keeps_what_was_told && !told) mark_failure_reported(plan_.job);
      tell_all(control::to_message(*failure_));
      for (auto& channel : copies_) channel->send(control::to_message(*failure_));
      say_goodbye();
      if (told) std::this_thread::sleep_for(teller_grace);
      throw Error(failure_->code, failure_->text, told);
    }
    auto const all = everybody();
    hand_out(all);
    say_goodbye();
    return all;
  }

 private:
  void open_desk() {
    auto door = plan_.local_name.empty() ? std::make_unique<control::Acceptor>(io_, plan_.ports)
                                         : std::make_unique<control::Acceptor>(io_, plan_.local_name);
    log::debug("join: {}: handing out the key at {}", plan_.name,
               plan_.local_name.empty() ? fmt::format("port {}", door->port()) : "@" + plan_.local_name);
    desk_.emplace(
        std::move(door), *plan_.seal, plan_.job, plan_.size, JobCredentials{key_, gate_.port()},
        [this](const std::string& why) {
          ++refused_;
          refusal_ = why;
        },
        [this](int rank, AuthFailure obstacle) { attendance_.declined[rank] = words_of(obstacle); });
  }

  // Where another rank of this host was first, that one brings them.
  void open_host() {
    host_ = HostLeader::try_first(io_, plan_);
    if (!host_) return;
    host_->open(
        key_, [this](int rank, const Message& message) { hear_hello(rank, message); },
        [this](int rank, const std::string& reason) { lose_record(rank, reason); });
  }

  template <typename Done>
  void run_until(const Deadline& deadline, Done done) {
    while (!done() && !deadline.passed()) {
      if (io_.stopped()) io_.restart();
      io_.run_one_until(deadline.when());
    }
  }

  void admit(int rank, control::Socket socket, const control::SessionKeys& keys) {
    auto channel = std::make_shared<control::SecureChannel>(std::move(socket), keys);
    if (records_.contains(rank)) {
      copies_.push_back(channel);
    } else {
      // Not closed: it may be another process that says that it is this rank, and what it says counts, too.
      if (auto const old = channels_.extract(rank)) copies_.push_back(old.mapped());
      channels_.emplace(rank, channel);
    }
    channel->start([this, rank](const Message& message) { hear(rank, message); },
                   [this, rank, raw = channel.get()](const std::string& reason) {
                     auto const found = channels_.find(rank);
                     if (found != channels_.end() && found->second.get() == raw) lose(rank, reason);
                   });
  }

  void hear(int rank, const Message& message) {
    auto const& what = message.at("is").get_ref<const std::string&>();
    if (what == "seen") return testify(rank, message);
    if (what == "hello") return hear_hello(rank, message);
    if (what != "from" && what != "lost") return;
    // Of another rank of its host.
    auto const of = message.at("rank").get<int>();
    if (of < 1 || of >= plan_.size) throw Error(ErrorCode::system, "a rank speaks for one that there is not");
    if (what == "lost") return lose_record(of, message.at("reason").get<std::string>());
    hear_hello(of, message.at("message"));
  }

  void hear_hello(int rank, const Message& message) {
    if (message.at("is") != "hello") return;
    auto record = decode(message.at("record").get_binary());
    if (record.hello.rank != rank) throw Error(ErrorCode::system, "a hello names another rank");
    auto const size = message.at("size").get<int>();
    if (size != plan_.size) {
      return fail(ErrorCode::environment,
                  fmt::format("join: {} was told that there are {} ranks, but rank 0 that there "
                              "are {}: start them all with the same size",
                              describe_rank(record.hello), size, plan_.size));
    }
    if (auto const found = records_.find(rank); found != records_.end()) {
      const Hello& first = found->second.hello;
      return fail(
          ErrorCode::environment,
          fmt::format("join: two processes say that they are rank {}: pid {} on host {} and pid {} on host "
                      "{}: start each rank once, or set MUSTER_JOIN=address below a launcher of your own",
                      rank, first.pid, first.host, record.hello.pid, record.hello.host));
    }
    records_.emplace(rank, std::move(record));
    log::debug("join: {}: hello of rank {}, {} of {} here", plan_.name, rank, records_.size() + 1,
               plan_.size);
  }

  void lose(int rank, const std::string& reason) {
    channels_.erase(rank);
    lose_record(rank, reason);
  }

  void lose_record(int rank, const std::string& reason) {
    auto const found = records_.find(rank);
    if (found == records_.end() || failure_ || done_) return;
    fail(ErrorCode::lost_rank,
         fmt::format("join: {}, pid {}, ended while it waited for the others ({})",
                     describe_rank(found->second.hello), found->second.hello.pid, reason));
  }

  void fail(ErrorCode code, std::string text) {
    if (!failure_) failure_ = control::Failure{code, 0, std::move(text)};
  }

  void testify(int rank, const Message& message) {
    auto const found = records_.find(rank);
    if (found == records_.end()) return;
    testified_.insert(rank);
    attendance_.seen_on_host[found->second.hello.host].merge(read_testimony(message, plan_.size));
  }

  void name_the_missing(const Deadline& deadline) {
    // One of each host is asked.
    std::set<std::string> hosts{mine_.hello.host};
    std::set<int> asked;
    for (const auto& [rank, record] : records_) {
      if (!channels_.contains(rank) || !hosts.insert(record.hello.host).second) continue;
      asked.insert(rank);
      channels_.at(rank)->send({{"is", "witness"}});
    }
    attendance_.seen_on_host[mine_.hello.host] = find_rank_processes(variable, plan_.name);
    run_until(Deadline(witness_time), [&] { return testified_ == asked; });
    attendance_.size = plan_.size;
    attendance_.started_together = plan_.started_together;
    attendance_.host_of = plan_.host_of;
    attendance_.present.insert(0);
    bool guessed_right = true;
    for (const auto& [rank, record] : records_) {
      attendance_.present.insert(rank);
      auto const index = static_cast<std::size_t>(rank);
      if (index < plan_.host_of.size() && plan_.host_of[index] != record.hello.host) guessed_right = false;
    }
    if (!guessed_right) attendance_.host_of.clear();
    for (const auto& [rank, channel] : channels_) attendance_.connected.insert(rank);
    auto text = describe_missing_ranks(attendance_, deadline.length());
    if (refused_ > 0)
      text += fmt::format("; {} request{} for the key refused, the last because: {}", refused_,
                          refused_ == 1 ? " was" : "s were", refusal_);
    fail(ErrorCode::deadline, text);
  }

  std::vector<JoinRecord> everybody() {
    std::vector<JoinRecord> all{mine_};
    for (auto& [rank, record] : records_) all.push_back(std::move(record));
    return all;
  }

  void tell_all(const Message& message) {
    for (auto& [rank, channel] : channels_) channel->send(message);
    if (host_) host_->tell(message);
  }

  void hand_out(const std::vector<JoinRecord>& all) {
    Message chunk = Message::array();
    std::size_t bytes = 0;
    auto const send = [&] {
      Message const message{{"is", "records"}, {"records", std::move(chunk)}};
      tell_all(message);
      chunk = Message::array();
      bytes = 0;
    };
    for (const auto& record : all) {
      auto encoded = encode(record);
      bytes += encoded.size();
      chunk.push_back(Message::binary(std::move(encoded)));
      if (bytes >= chunk_bytes) send();
    }
    if (!chunk.empty()) send();
  }

  // Lets what was sent go out.
  void say_goodbye() {
    done_ = true;
    gate_.close();
    if (desk_) desk_->close();
    if (host_) host_->close();
    for (auto& [rank, channel] : channels_) channel->close();
    for (auto& channel : copies_) channel->close();
    channels_.clear();
    if (io_.stopped()) io_.restart();
    io_.run_for(leave_taking_time);
  }

  const RendezvousConfig& plan_;
  const JoinRecord& mine_;
  control::Key key_;
  asio::io_context io_;
  control::AuthenticatingAcceptor gate_;
  std::optional<KeyServer> desk_;
  std::unique_ptr<HostLeader> host_;
  std::map<int, std::shared_ptr<control::SecureChannel>> channels_;
  std::vector<std::shared_ptr<control::SecureChannel>> copies_;  // further ones in the name of a rank
  std::map<int, JoinRecord> records_;
  std::optional<control::Failure> failure_;
  JoinProgress attendance_;
  std::set<int> testified_;
  int refused_ = 0;
  std::string refusal_;
  bool done_ = false;
};

}  // namespace

std::vector<JoinRecord> lead_meeting(const RendezvousConfig& plan, const JoinRecord& mine, const Deadline& deadline) {
  if (plan.obstacle != AuthFailure::none) {
    serve_auth_failure(plan, deadline);
    throw Error(ErrorCode::environment, plan.trouble);
  }
  return Leader(plan, mine).run(deadline);
}

}  // namespace muster::bootstrap
