// SPDX-License-Identifier: Apache-2.0
// The control plane's cost for rank 0 in jobs of up to 100,000 ranks: control_plane_scale [RANKS...].
//
// Rank 0 is real (control::Coordinator behind its real acceptors), in its own process; so are the connections
// to it (control::SecureChannel). The hosts behind them are simulated: a host of 8 ranks is one connection
// that sends the messages of its leader and of the seven ranks behind it. First the simulation is compared,
// byte by byte as counted by a TCP relay, with jobs of real control planes of 16, 32 and 64 ranks.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "control_plane/control_plane.hpp"
#include "coordinator_process.hpp"
#include "local_listeners.hpp"
#include "simulated_hosts.hpp"
#include "tcp_counter.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;
using bench::ranks_per_host;

namespace {

struct Row {
  std::string operation;
  bench::Traffic at_rank_0;
  std::uint64_t total_messages = 0;
  int depth = 0;
  double seconds = 0;    // until every rank has its answer
  double processor = 0;  // of rank 0's control thread
};

void print(int ranks, const Row& row) {
  fmt::print("| {} | {} | {} | {} | {:.1f} | {:.1f} | {} | {:.3f} | {:.3f} |\n", ranks, row.operation,
             row.total_messages, row.at_rank_0.messages_in + row.at_rank_0.messages_out,
             static_cast<double>(row.at_rank_0.bytes_in) / 1000,
             static_cast<double>(row.at_rank_0.bytes_out) / 1000, row.depth, row.processor, row.seconds);
  std::fflush(stdout);
}

std::vector<int> all_ranks(int ranks) {
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
  return members;
}

// A rank's message in a round of all ranks.
Message contribution(const std::string& name, int root, const Blob& blob = {}, bool last = false) {
  return encode(protocol::Contribution{name, nullptr, root, std::chrono::minutes{1}, last, blob});
}

class SimulatedJob {
 public:
  explicit SimulatedJob(int ranks) : ranks_(ranks), coordinator_(ranks, key_), hosts_(io_, ranks, key_) {}
  ~SimulatedJob() { hosts_.close(); }
  SimulatedJob(const SimulatedJob&) = delete;
  SimulatedJob& operator=(const SimulatedJob&) = delete;

  // The connections, and the barrier that ends a join.
  Row join() {
    return measured("join", 12, [&] {
      connect_hosts();
      round(contribution("join", 0), {});
    });
  }
  Row barrier() {
    return measured("barrier", 4, [&] { round(contribution("b", 0), {}); });
  }
  // One NCCL id, 128 bytes, from rank 0 to all; above 128 ranks NCCL uses several, sent in one message.
  Row broadcast_ids() {
    Blob const ids(128 * static_cast<std::size_t>(1 + (ranks_ - 1) / 128));
    if (ranks_ > max_ranks_sent)
      return computed("broadcast of NCCL ids", contribution("ids", 0),
                      encode(protocol::RoundResult{"ids", false, {ids}}));
    return measured("broadcast of NCCL ids", 4,
                    [&] { round(contribution("ids", 0), contribution("ids", 0, ids)); });
  }
  // The exchange of split(): two numbers of each rank, to all.
  Row gather() {
    auto const mine = contribution("split", -1, Blob(8));
    if (ranks_ <= max_ranks_sent) return measured("gather of 8 bytes (split)", 4, [&] { round(mine, mine); });
    std::vector<Blob> const blobs(static_cast<std::size_t>(ranks_), Blob(8));
    return computed("gather of 8 bytes (split)", mine, encode(protocol::RoundResult{"split", false, blobs}));
  }
  // The final barrier: a host leader does not forward its ranks' disconnects after it.
  Row leave() {
    return measured("leave", 4, [&] { final_barrier(); });
  }
  Row failure() {
    return measured("failure", 4, [&] {
      hosts_.expect_answers();
      hosts_.send_from_last(
          encode(protocol::FailureReport{ErrorCode::lost_rank, "a reason of about this length"}));
      wait();
    });
  }
  // The same operations as measure_real_job(), for comparison; bytes over TCP only.
  bench::Traffic traffic_over_tcp() {
    hosts_.reset_traffic();
    connect_hosts();
    round(contribution("join", 0), {});
    round(contribution("ids", 0), contribution("ids", 0, Blob(128)));
    auto const split = contribution("split", -1, Blob(8));
    round(split, split);
    final_barrier();
    return hosts_.traffic_over_tcp();
  }

 private:
  // With more ranks, an answer for each host that grows with the job is counted and not sent: these are
  // gigabytes, which one thread cannot receive from so many connections in time.
  static constexpr int max_ranks_sent = 4096;

  Row computed(const std::string& name, const Message& theirs, const Message& answer) {
    auto const traffic = hosts_.compute_round_traffic(theirs, answer);
    return {name + ", computed", traffic, hosts_.messages_inside(), 4, 0, 0};
  }
  void connect_hosts() {
    auto const& address = coordinator_.address();
    hosts_.connect(address.port, address.local_socket.data());
  }
  // Every rank sends `theirs`; rank 0 sends `own` if that is not null.
  void round(const Message& theirs, const Message& own) {
    hosts_.expect_answers();
    coordinator_.send(own.is_null() ? theirs : own);
    hosts_.send_from_each(theirs);
    wait();
  }
  void final_barrier() { round(contribution("leave", 0, {}, true), {}); }
  void wait() {
    hosts_.run_until_answered();
    coordinator_.wait_for_result();
  }
  template <typename Operation>
  Row measured(const std::string& name, int depth, Operation operation) {
    hosts_.reset_traffic();
    auto const began = std::chrono::steady_clock::now();
    auto const processor = coordinator_.processor_time();
    operation();
    Row row{name, hosts_.traffic(), 0, depth, 0, coordinator_.processor_time() - processor};
    row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    row.total_messages = row.at_rank_0.messages_in + row.at_rank_0.messages_out + hosts_.messages_inside();
    return row;
  }

  int ranks_;
  Key key_ = random_key();
  bench::CoordinatorProcess coordinator_;  // declared before the hosts, which are destroyed first
  asio::io_context io_;
  bench::SimulatedHosts hosts_;
};

// The bytes between rank 0 and the other hosts' leaders in a job of real control planes: join's barrier, a
// broadcast, a gather.
bench::Traffic measure_real_job(int ranks) {
  Key const key = random_key();
  ControlPlaneOptions const options{bench::make_roster(ranks), bench::find_host_leaders(ranks), 0ms};
  LocalListeners const listeners(ranks);
  auto const rank_0 = ControlPlane::listen(key);
  rank_0->start_coordinator(listeners.options_of(0, options));
  bench::TcpCounter counter(rank_0->port());
  std::vector<std::thread> threads;
  auto const calls = [ranks](ControlPlane& plane) {
    auto const members = all_ranks(ranks);
    plane.barrier("join", 60s);
    plane.broadcast("ids", members, 0, plane.rank() == 0 ? Blob(128) : Blob{}, 60s);
    plane.gather("split", members, Blob(8), 60s);
    plane.final_barrier("leave", 60s);
    plane.leave();
  };
  for (int rank = 1; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto const plane = ControlPlane::connect(rank, listeners.options_of(rank, options), {"127.0.0.1"},
                                               counter.port(), key, Deadline(60s));
      calls(*plane);
    });
  calls(*rank_0);
  for (auto& thread : threads) thread.join();
  return counter.traffic();
}

bool compare_with_real_jobs() {
  bool same = true;
  for (int const ranks : {16, 32, 64}) {
    auto const real = measure_real_job(ranks);
    auto const simulated = SimulatedJob(ranks).traffic_over_tcp();
    bool const equal = real.bytes_in == simulated.bytes_in && real.bytes_out == simulated.bytes_out;
    fmt::print("{} ranks: real planes {} bytes to rank 0 and {} from it, simulated {} and {}{}\n", ranks,
               real.bytes_in, real.bytes_out, simulated.bytes_in, simulated.bytes_out,
               equal ? "" : ": NOT THE SAME");
    same = same && equal;
  }
  return same;
}

void ensure_open_files(int ranks) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  auto const needed = static_cast<rlim_t>(ranks / ranks_per_host + ranks_per_host + 1000);
  if (limit.rlim_cur >= needed) return;
  limit = {needed, std::max(limit.rlim_max, needed)};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    throw std::runtime_error(
        fmt::format("{} ranks need {} open files: raise ulimit -n, or run as root", ranks, needed));
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) {
    sizes.push_back(std::atoi(argv[i]));
    if (sizes.back() > 0) continue;
    std::fprintf(stderr, "control_plane_scale: '%s' is not a number of ranks; usage: %s [RANKS...]\n",
                 argv[i], argv[0]);
    return 2;
  }
  if (sizes.empty()) sizes = {8, 64, 512, 4096, 32768, 100000};
  try {
    if (!compare_with_real_jobs()) return 1;
    fmt::print(
        "\n| ranks | operation | messages in all | at rank 0 | kB to rank 0 | kB from rank 0 | messages deep "
        "| rank 0's thread, s | until all "
        "have it, s |\n|---|---|---|---|---|---|---|---|---|\n");
    for (int const ranks : sizes) {
      ensure_open_files(ranks);
      {
        SimulatedJob job(ranks);
        print(ranks, job.join());
        print(ranks, job.barrier());
        print(ranks, job.broadcast_ids());
        print(ranks, job.gather());
        print(ranks, job.leave());
      }
      SimulatedJob failing(ranks);
      failing.join();
      print(ranks, failing.failure());
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "control_plane_scale: %s\n", error.what());
    return 1;
  }
}
