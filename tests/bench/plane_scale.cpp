// SPDX-License-Identifier: Apache-2.0
// What the control plane costs rank 0 as jobs grow, to 100,000 ranks: plane_scale [RANKS...].
//
// Rank 0 is the real one (control::Leader behind its real gates), in a process of its own; so are the
// connections to it (control::SecureChannel). The hosts behind them are simulated: a host of 8 ranks is one
// connection that says what its leader and the seven ranks behind it say. Before anything else that is
// compared, byte by byte as counted by a TCP relay in between, with jobs of real planes of 16, 32 and 64
// ranks.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <thread>

#include "control_plane/control_plane.hpp"
#include "leader_process.hpp"
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
  std::uint64_t in_all = 0;
  int depth = 0;
  double seconds = 0;    // until everybody has its answer
  double processor = 0;  // of rank 0's control thread
};

void print(int ranks, const Row& row) {
  fmt::print("| {} | {} | {} | {} | {:.1f} | {:.1f} | {} | {:.3f} | {:.3f} |\n", ranks, row.operation,
             row.in_all, row.at_rank_0.messages_in + row.at_rank_0.messages_out,
             static_cast<double>(row.at_rank_0.bytes_in) / 1000,
             static_cast<double>(row.at_rank_0.bytes_out) / 1000, row.depth, row.processor, row.seconds);
  std::fflush(stdout);
}

std::vector<int> everybody(int ranks) {
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
  return members;
}

// What a rank says when it comes to a round of everybody. Not ControlPlane's own words, which its bytes are compared
// with.
Message arrival(const std::string& name, int root, const Blob& blob = {}, bool last = false) {
  return {{"is", "arrive"}, {"name", name}, {"root", root},
          {"ms", 60'000},   {"last", last}, {"blob", Message::binary(blob)}};
}

class SimulatedJob {
 public:
  explicit SimulatedJob(int ranks) : ranks_(ranks), leader_(ranks, key_), hosts_(io_, ranks, key_) {}
  ~SimulatedJob() { hosts_.close(); }
  SimulatedJob(const SimulatedJob&) = delete;
  SimulatedJob& operator=(const SimulatedJob&) = delete;

  // Connections, and the barrier that ends a join.
  Row join() {
    return measured("join", 12, [&] {
      hosts_.connect(leader_.port());
      round(arrival("join", 0), {});
    });
  }
  Row barrier() {
    return measured("barrier", 4, [&] { round(arrival("b", 0), {}); });
  }
  // One NCCL id, 128 bytes, from rank 0 to all; above 128 ranks NCCL takes several, which come in one
  // message.
  Row broadcast_ids() {
    Blob const ids(128 * static_cast<std::size_t>(1 + (ranks_ - 1) / 128));
    if (ranks_ > most_ranks_sent)
      return computed("broadcast of NCCL ids", arrival("ids", 0),
                      {{"is", "done"}, {"name", "ids"}, {"last", false}, {"blobs", {Message::binary(ids)}}});
    return measured("broadcast of NCCL ids", 4, [&] { round(arrival("ids", 0), arrival("ids", 0, ids)); });
  }
  // What split() needs: two numbers of each rank, to all.
  Row gather() {
    auto const mine = arrival("split", -1, Blob(8));
    if (ranks_ <= most_ranks_sent)
      return measured("gather of 8 bytes (split)", 4, [&] { round(mine, mine); });
    Message blobs = Message::array();
    for (int rank = 0; rank < ranks_; ++rank) blobs.push_back(Message::binary(Blob(8)));
    return computed("gather of 8 bytes (split)", mine,
                    {{"is", "done"}, {"name", "split"}, {"last", false}, {"blobs", std::move(blobs)}});
  }
  // The last barrier: that its ranks go then a host's leader tells nobody.
  Row leave() {
    return measured("leave", 4, [&] { last_barrier(); });
  }
  Row failure() {
    return measured("failure", 4, [&] {
      hosts_.expect_answers();
      hosts_.say_of_last({{"is", "broken"},
                          {"code", 1},
                          {"speaker", ranks_ - 1},
                          {"text", "a reason of about this length"}});
      wait();
    });
  }
  // What traffic_of_real_job() does, for comparison: bytes over TCP only.
  bench::Traffic traffic_over_tcp() {
    hosts_.reset_traffic();
    hosts_.connect(leader_.port());
    round(arrival("join", 0), {});
    round(arrival("ids", 0), arrival("ids", 0, Blob(128)));
    auto const split = arrival("split", -1, Blob(8));
    round(split, split);
    last_barrier();
    return hosts_.traffic_over_tcp();
  }

 private:
  // Of more ranks, answers that are as many as the hosts and as long as the job is large are counted and not
  // sent: they are gigabytes, which one thread does not take off so many connections in time.
  static constexpr int most_ranks_sent = 4096;

  Row computed(const std::string& name, const Message& theirs, const Message& answer) {
    auto const traffic = hosts_.traffic_of_round(theirs, answer);
    return {name + ", computed", traffic, hosts_.messages_inside(), 4, 0, 0};
  }
  // Everybody comes with `theirs`, rank 0 with `own` where that differs.
  void round(const Message& theirs, const Message& own) {
    hosts_.expect_answers();
    leader_.say(own.is_null() ? theirs : own);
    hosts_.say_of_each(theirs);
    wait();
  }
  void last_barrier() { round(arrival("leave", 0, {}, true), {}); }
  void wait() {
    hosts_.run_until_answered();
    leader_.wait_for_answer();
  }
  template <typename Operation>
  Row measured(const std::string& name, int depth, Operation operation) {
    hosts_.reset_traffic();
    auto const began = std::chrono::steady_clock::now();
    auto const processor = leader_.processor_time();
    operation();
    Row row{name, hosts_.traffic(), 0, depth, 0, leader_.processor_time() - processor};
    row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    row.in_all = row.at_rank_0.messages_in + row.at_rank_0.messages_out + hosts_.messages_inside();
    return row;
  }

  int ranks_;
  Key key_ = random_key();
  bench::LeaderProcess leader_;  // before the hosts: they leave first
  asio::io_context io_;
  bench::SimulatedHosts hosts_;
};

// Bytes between rank 0 and the other hosts' leaders in a job of real planes: join's barrier, a broadcast, a
// gather.
bench::Traffic traffic_of_real_job(int ranks) {
  Key const key = random_key();
  ControlPlaneOptions const options{bench::roster_of(ranks), bench::leaders_of_hosts(ranks), 0ms};
  auto const rank_0 = ControlPlane::listen(key);
  rank_0->lead(options);
  bench::TcpCounter counter(rank_0->port());
  std::vector<std::thread> threads;
  auto const calls = [ranks](ControlPlane& plane) {
    auto const members = everybody(ranks);
    plane.barrier("join", 60s);
    plane.broadcast("ids", members, 0, plane.rank() == 0 ? Blob(128) : Blob{}, 60s);
    plane.gather("split", members, Blob(8), 60s);
    plane.last_barrier("leave", 60s);
    plane.leave();
  };
  for (int rank = 1; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto const plane = ControlPlane::follow(rank, options, {"127.0.0.1"}, counter.port(), key, Deadline(60s));
      calls(*plane);
    });
  calls(*rank_0);
  for (auto& thread : threads) thread.join();
  return counter.traffic();
}

bool compare_with_real_jobs() {
  bool same = true;
  for (int const ranks : {16, 32, 64}) {
    auto const real = traffic_of_real_job(ranks);
    auto const simulated = SimulatedJob(ranks).traffic_over_tcp();
    bool const equal = real.bytes_in == simulated.bytes_in && real.bytes_out == simulated.bytes_out;
    fmt::print("{} ranks: real planes {} bytes to rank 0 and {} from it, simulated {} and {}{}\n", ranks,
               real.bytes_in, real.bytes_out, simulated.bytes_in, simulated.bytes_out,
               equal ? "" : ": NOT THE SAME");
    same = same && equal;
  }
  return same;
}

void allow_files(int ranks) {
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
  for (int i = 1; i < argc; ++i) sizes.push_back(std::stoi(argv[i]));
  if (sizes.empty()) sizes = {8, 64, 512, 4096, 32768, 100000};
  try {
    if (!compare_with_real_jobs()) return 1;
    fmt::print(
        "\n| ranks | operation | messages in all | at rank 0 | kB to rank 0 | kB from rank 0 | messages deep "
        "| rank 0's thread, s | until all "
        "have it, s |\n|---|---|---|---|---|---|---|---|---|\n");
    for (int const ranks : sizes) {
      allow_files(ranks);
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
    std::fprintf(stderr, "plane_scale: %s\n", error.what());
    return 1;
  }
}
