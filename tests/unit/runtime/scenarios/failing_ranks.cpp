// SPDX-License-Identifier: Apache-2.0
// A job that fails on the last rank: failing_ranks WHAT [doubles]. The other ranks print one line in all,
// which the tests check, and end with the error's exit code. With "doubles" the job runs on fakes of CUDA and
// NCCL; then a rank that is not killed prints a second line if its communicators were not aborted at once.
//   absent       never joins
//   killed       is killed after the first all-reduce
//   leaves       ends with exit code 0, connected
//   dawdles      is killed, and the other ranks take long to print the error
//   elsewhere    does not enter an all-reduce that the other ranks wait in
//   trickles     each rank enters an all-reduce some time after the rank before it
//   apart        waits in an all-reduce while the other ranks are in a barrier of the control plane
//   background   does not enter an all-reduce that the other ranks have started in the background
//   computes     is killed while the other ranks compute and an all-reduce runs in the background
//   drops        is killed; the other ranks drop the Work of an all-reduce, and main returns
//   unwinding    ends with an exception of its own while an all-reduce runs in the background
//   throws       ends with an exception of its own
//   forgets      no rank calls leave()
//   returns      ends with exit code 0 and the job's destructor, while the other ranks are in an all-reduce
//   device       every rank requests the placed GPU
//   again        joins, leaves and joins again, which is refused
//   lonely       rank 0 waits for a message that the last rank does not send
//   late_message every other rank waits for a message that the last rank sends late; the job goes on
//   init_killed  is killed inside MPI_Init; init_hangs: hangs there; split_killed and split_hangs: inside
//                MPI_Comm_split; finalize_hangs: inside MPI_Finalize
//   reducing     is killed while gradients are reduced in the background; unready: stops calling ready();
//                abandons: aborts the job there
//   other_count, other_empty, other_type, other_reduction, other_root, other_operation, other_slices
//                makes another call than the other ranks
//   own_root     takes itself for the root of a broadcast, which all ranks then complete
//   other_message  receives more than rank 0 sends; empty_message: which sends nothing; shorter_message and
//                longer_message: receives more and less than it sends, and the two counts have the same tag
//   threads_missing  its MPI does not have the required thread support
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include "exit_code.hpp"
#include "muster/muster.hpp"

using namespace std::chrono_literals;

namespace {

bool is_last_rank() {
  for (const char* names : {"OMPI_COMM_WORLD", "SLURM"}) {
    std::string const prefix = names;
    const char* const rank = std::getenv((prefix == "SLURM" ? "SLURM_PROCID" : "OMPI_COMM_WORLD_RANK"));
    const char* const size =
        std::getenv((prefix == "SLURM" ? "SLURM_STEP_NUM_TASKS" : "OMPI_COMM_WORLD_SIZE"));
    if (rank != nullptr && size != nullptr) return std::stoi(rank) == std::stoi(size) - 1;
  }
  return true;
}

void all_reduce(muster::Communicator& world) {
  std::vector<float> values(1000, 1.0f);
  world.all_reduce(std::span<float>(values));
  if (values[0] != static_cast<float>(world.size())) std::abort();
}

// Every rank sends every rank one element; the last one expects two of rank 0.
void expect_longer_slice(muster::Communicator& world, bool last) {
  auto const ranks = static_cast<std::size_t>(world.size());
  std::vector<std::size_t> const send_counts(ranks, 1);
  auto recv_counts = send_counts;
  if (last) recv_counts[0] = 2;
  std::vector<float> const in(ranks);
  std::vector<float> out(ranks + (last ? 1 : 0));
  world.all_to_all_v(in, out, send_counts, recv_counts);
}

// The third call of every rank. The last rank makes another one, `what`.
void call_differently(muster::Communicator& world, const std::string& what) {
  bool const last = world.rank() == world.size() - 1;
  std::size_t const count = what == "other_count" ? 777 : what == "other_empty" ? 0 : 1000;
  std::vector<float> values(last ? count : 1000, 1.0f);
  std::vector<std::int32_t> integers(1000, 1);
  float first = 1;
  world.broadcast(first, 0);
  if (what == "other_root")
    world.reduce(std::span<float>(values), last ? 1 : 0);
  else if (what == "other_operation" && last)
    world.broadcast(std::span<float>(values), 0);
  else if (what == "other_type" && last)
    world.all_reduce(std::span<std::int32_t>(integers));
  else if (what == "other_slices")
    expect_longer_slice(world, last);
  else if (what == "other_reduction" && last)
    world.all_reduce(std::span<float>(values), muster::Reduction::max);
  else
    world.all_reduce(std::span<float>(values));
}

// A broadcast that ends on all ranks, but with different results; the next call shows it.
void broadcast_from_other_roots(muster::Communicator& world) {
  std::vector<float> values(10, 1.0f);
  for (int i = 0; i < 10; ++i) world.barrier();
  bool const last = world.rank() == world.size() - 1;
  world.broadcast(std::span<float>(values), last ? world.rank() : 0);
  world.all_reduce(std::span<float>(values));
}

// The last rank's message has another count than rank 0's.
void receive_other_message(muster::Communicator& world, const std::string& what) {
  constexpr std::size_t few = 7, many = 56303;  // have the same tag, whatever MPI's limit
  std::vector<float> const sent(what == "empty_message"    ? 0
                                : what == "other_message"  ? 5
                                : what == "longer_message" ? many
                                                           : few);
  std::vector<float> values(what == "shorter_message" ? many : few);
  if (world.rank() == 0) world.send(sent, world.size() - 1);
  if (world.rank() == world.size() - 1) world.recv(values, 0);
}

// The last rank is killed while the others only have an all-reduce in the background.
void lose_rank_in_background(muster::Communicator& world, bool computes) {
  if (world.rank() == world.size() - 1) kill(getpid(), SIGKILL);
  std::vector<float> values(1000, 1.0f);
  auto const work = world.all_reduce_async(values);
  if (computes) std::this_thread::sleep_for(20s);
}

// The last rank starts an all-reduce that no other rank enters, and throws.
void run_while_unwinding(muster::Job& job, muster::Communicator& world) {
  if (job.rank() < job.size() - 1) return job.barrier("epoch");
  std::vector<float> values(1000, 1.0f);
  auto const work = world.all_reduce_async(values);
  throw std::runtime_error("the last rank has a reason of its own");
}

// The other ranks wait for the last rank's message.
void pass_late_message(muster::Communicator& world) {
  int const last = world.size() - 1;
  std::vector<float> values(10);
  if (world.rank() != last) return world.recv(std::span<float>(values), last);
  std::this_thread::sleep_for(7s);
  for (int rank = 0; rank < last; ++rank) world.send(std::span<const float>(values), rank);
}

// Backward passes that compute nothing; the last rank fails in the middle of one.
void reduce_gradients(muster::Job& job, muster::Communicator& world, const std::string& what) {
  bool const last = job.rank() == job.size() - 1;
  auto const part = world.split(0);
  muster::Reducer reducer(world, std::vector<std::size_t>(50, 20'000), {.bucket_bytes = 100'000});
  for (int step = 0; step < 1000; ++step) {
    for (std::size_t i = reducer.parameters(); i-- > 0;) {
      if (last && step == 5 && i == 20) {
        if (what == "reducing") kill(getpid(), SIGKILL);
        if (what == "abandons") {
          job.abort();
          throw std::runtime_error("the last rank gives the job up");
        }
        std::this_thread::sleep_for(100s);
      }
      reducer.ready(i);
    }
    reducer.finish();
  }
}

// The fake NCCL library.
class FakeNccl {
 public:
  FakeNccl() : library_(dlopen(std::getenv("MUSTER_NCCL_LIBRARY"), RTLD_NOW)) {}

  bool aborted_at_once(int communicators) const {
    return call_int("fake_nccl_aborted") == communicators &&
           call_int("fake_nccl_most_aborting") == communicators && call_int("fake_nccl_live") == 0;
  }

 private:
  int call_int(const char* function) const {
    return reinterpret_cast<int (*)()>(dlsym(library_, function))();
  }

  void* library_;
};

// Short where a test waits for the deadline. On a busy machine MPI_Init alone takes seconds.
std::chrono::seconds join_deadline(const std::string& what) {
  if (what == "finalize_hangs") return 15s;
  return what == "absent" || what == "init_hangs" ? 10s : 60s;
}

// The same for operations. The other tests must not mistake a busy machine for a stalled rank.
std::chrono::seconds operation_timeout(const std::string& what) {
  if (what == "unwinding") return 600s;  // longer than the test's limit
  if (what == "trickles") return 10s;
  bool const waits = what == "elsewhere" || what == "background" || what == "lonely" || what == "unready" ||
                     what == "split_hangs";
  return waits ? 5s : 60s;
}

int run(const std::string& what, bool on_fakes) {
  if (what == "absent" && is_last_rank()) {
    std::this_thread::sleep_for(100s);
    return 0;
  }
  auto const device = on_fakes           ? muster::Device::cuda
                      : what == "device" ? muster::Device::automatic
                                         : muster::Device::cpu;
  auto job = muster::Job::join(
      {.deadline = join_deadline(what), .operation_timeout = operation_timeout(what), .device = device});
  if (auto const at = what.find('_'); at != std::string::npos && is_last_rank()) {
    setenv("FAILING_IN", what.substr(0, at).c_str(), 1);
    setenv("FAILING_HOW", what.substr(at + 1).c_str(), 1);
  }
  auto world = job.world();
  all_reduce(world);
  if (what.starts_with("split_")) world.split(0);
  if (what == "lonely" && job.rank() != 0) std::this_thread::sleep_for(10s);
  if (what == "lonely" && job.rank() == 0) {
    std::vector<float> values(10);
    world.recv(std::span<float>(values), job.size() - 1);
  }
  bool const last = job.rank() == job.size() - 1;
  if (what == "late_message") pass_late_message(world);
  if (what == "reducing" || what == "unready" || what == "abandons") reduce_gradients(job, world, what);
  if (what.starts_with("other_") && what != "other_message") call_differently(world, what);
  if (what == "own_root") broadcast_from_other_roots(world);
  if (what.ends_with("_message") && what != "late_message") receive_other_message(world, what);
  if ((what == "killed" || what == "dawdles") && last) kill(getpid(), SIGKILL);
  if (what == "leaves" && last) _exit(0);
  if (what == "returns" && last) return 0;
  if (what == "trickles") std::this_thread::sleep_for(job.rank() * job.rank() * 3200ms);
  if (what == "apart" && !last) job.barrier("epoch", 8s);
  if (what == "computes" || what == "drops") {
    lose_rank_in_background(world, what == "computes");
    return 0;
  }
  if (what == "unwinding") run_while_unwinding(job, world);
  if (what == "background" && !last) {
    std::vector<float> values(1000, 1.0f);
    world.all_reduce_async(values).wait();
  }
  if (what == "throws" && last) throw std::runtime_error("the last rank has a reason of its own");
  if ((what == "elsewhere" || what == "background") && last) {
    std::this_thread::sleep_for(100s);
    return 0;
  }
  if (what == "again") {
    job.leave();
    job = muster::Job::join({.device = device});
    std::printf("joined twice\n");
    return 0;
  }
  for (int i = 0; i < 100; ++i) {
    all_reduce(world);
    if (what != "forgets" && what != "finalize_hangs") std::this_thread::sleep_for(20ms);
  }
  if (what != "forgets") job.leave();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string const what = argc > 1 ? argv[1] : "";
  std::optional<FakeNccl> nccl;
  if (argc > 2) nccl.emplace();
  int const code = exit_code_of("failing_ranks", [&] {
    try {
      return run(what, nccl.has_value());
    } catch (const muster::Error&) {
      if (what == "dawdles") std::this_thread::sleep_for(10s);
      throw;
    }
  });
  // The world's communicator, and with a reducer its split part and the reducer's own.
  if (nccl && !nccl->aborted_at_once(what == "reducing" || what == "abandons" ? 3 : 1))
    std::fprintf(stderr, "failing_ranks: its communicators were not aborted at once\n");
  return code;
}
