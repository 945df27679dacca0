// SPDX-License-Identifier: Apache-2.0
#include "communicator/mpi/mpi_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <numeric>
#include <system_error>
#include <utility>

#include "bootstrap/open_mpi_process.hpp"
#include "communicator/mpi/lost_rank_reports.hpp"
#include "communicator/mpi/mpi_communicator.hpp"
#include "communicator/mpi/mpi_interface.hpp"
#include "communicator/mpi/mpi_state.hpp"
#include "log.hpp"
#include "roster/roster.hpp"

namespace muster::detail {
namespace {

// Does not override the user's or the administrator's settings of Open MPI.
void set_default(const char* name, const char* value) { setenv(name, value, 0); }

// Whether this host has adapters that Open MPI prefers to TCP: InfiniBand, RoCE, EFA, Omni-Path or Slingshot.
bool has_fabric() {
  return std::ranges::any_of(std::array{"/sys/class/infiniband", "/sys/class/cxi"}, [](const char* folder) {
    std::error_code error;
    std::filesystem::directory_iterator const first(folder, error);
    return !error && first != std::filesystem::directory_iterator();
  });
}

// Open MPI writes to its TCP connections without MSG_NOSIGNAL. When another rank is lost, SIGPIPE would end
// this one before it reports. A handler, and not SIG_IGN, which programs that this one starts would inherit.
void survive_sigpipe() {
  struct sigaction action {};
  if (sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &action, nullptr);
}

void set_open_mpi_defaults(bool yield) {
  // Waiting ranks yield their core where ranks share cores.
  if (yield) set_default("OMPI_MCA_mpi_yield_when_idle", "1");
  // Disable Open MPI's warnings about unused transports and about a missing CUDA library.
  set_default("OMPI_MCA_btl_base_warn_component_unused", "0");
  set_default("OMPI_MCA_opal_warn_on_missing_libcuda", "0");
  // Open MPI 5 and later: MPI_Init returns its error, which Muster then prints. Open MPI 4 ends the process.
  set_default("OMPI_MCA_mpi_initial_errhandler", "mpi_errors_return");
  // When a TCP connection breaks, Open MPI 5 ends the process before Muster can name the lost rank. With
  // fault tolerance the operation fails instead, but then Open MPI does not use fabric transports (UCX,
  // Libfabric).
  if (!has_fabric()) set_default("OMPI_MCA_mpi_ft_enable", "1");
#ifdef MUSTER_HAVE_PMIX
  bootstrap::set_open_mpi_process_name();
  // Needed wherever fault tolerance is on, even if the user turned it on.
  suppress_lost_rank_reports();
#endif
}

// Fails the job: whether all ranks have this error or only this one, one of them reports it.
[[noreturn]] void throw_job_failure(const JobContext& job, ErrorCode code, const std::string& text) {
  if (job.plane) job.plane->fail_job(code, text);
  throw Error(code, text);
}

std::string describe_this_rank(const JobContext& job) {
  return bootstrap::describe_rank(job.roster[static_cast<std::size_t>(job.rank)]);
}

[[noreturn]] void throw_rank_failure(const JobContext& job, ErrorCode code, const std::string& what) {
  throw_job_failure(job, code, fmt::format("{} on {}", what, describe_this_rank(job)));
}

void check_ranks(const JobContext& job, const MpiLibrary& mpi) {
  int rank = -1;
  int size = 0;
  mpi.comm_rank(mpi.comm_world, &rank);
  mpi.comm_size(mpi.comm_world, &size);
  if (rank == job.rank && size == static_cast<int>(job.roster.size())) return;
  throw_job_failure(
      job, ErrorCode::environment,
      fmt::format("Open MPI counts {} of {} as rank {} of {}: start the program with srun --mpi=pmix or "
                  "with the mpirun of the Open MPI that libmuster was built with",
                  describe_this_rank(job), job.roster.size(), rank, size));
}

std::vector<int> all_ranks(const JobContext& job) {
  std::vector<int> ranks(job.roster.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Runs a call of MPI in which ranks wait for each other without a deadline. `number` counts these calls.
void run_mpi_call(const JobContext& job, control::OperationState& operation_state, std::uint64_t number,
                  const char* name, const Deadline& deadline, std::function<int()> call) {
  operation_state.operation = name;
  operation_state.number = number;
  operation_state.inside = true;
  auto const code =
      run_bounded(std::move(call), deadline, [plane = job.plane] { return plane && plane->failed(); });
  // The control plane names the ranks that are stuck in the call.
  if (!code && job.plane)
    job.plane->fail_operation(all_ranks(job),
                              {.number = number, .operation = name, .waited = deadline.length()});
  if (!code)
    throw_rank_failure(
        job, ErrorCode::deadline,
        fmt::format("{} did not complete within {}", name, format_duration(deadline.length())));
  operation_state.inside = false;
  if (*code != MPI_SUCCESS)
    throw_rank_failure(job, ErrorCode::system, fmt::format("{} failed with code {}", name, *code));
}

class Session : public MpiSession {
 public:
  Session(bool owner, bool yield, std::shared_ptr<control::OperationState> init_state)
      : owner_(owner), init_state_(std::move(init_state)), state_(std::make_shared<MpiState>()) {
    state_->yield = yield;
  }

  std::shared_ptr<CommunicatorBackend> world(CommunicatorGroup group) override {
    return MpiCommunicator::world(state_, std::move(group));
  }

  void finalize(const JobContext& job, const Deadline& deadline) override {
    if (!state_->open.exchange(false)) return;
    {
      // A thread of the program that waits in an operation ends it at its next poll.
      std::lock_guard const lock(state_->mpi_mutex);
    }
    if (!owner_) return;
    try {
      run_mpi_call(job, *init_state_, 2, "MPI_Finalize", deadline, [state = state_] {
        std::lock_guard const lock(state->mpi_mutex);
        return state->mpi.finalize();
      });
    } catch (const Error& error) {
      throw Error(error.code(),
                  fmt::format("{}; all work was done by then: if it happens again, try another transport "
                              "(OMPI_MCA_pml=ob1), or see where these processes are (gdb -p)",
                              error.what()),
                  error.reported_elsewhere());
    }
    log::debug("leave: MPI finalized");
  }

 private:
  bool owner_;
  // Stays registered, because other ranks may still query it.
  std::shared_ptr<control::OperationState> init_state_;
  std::shared_ptr<MpiState> state_;
};

// MPI calls without a deadline run on a second thread, so MPI must allow that.
void check_threads(const JobContext& job, const MpiLibrary& mpi, bool ours) {
  int provided = MPI_THREAD_SINGLE;
  mpi.query_thread(&provided);
  if (provided >= MPI_THREAD_SERIALIZED) return;
  throw_job_failure(
      job, ErrorCode::environment,
      ours ? "this Open MPI does not give MPI_THREAD_SERIALIZED, which a host communicator needs: use one "
             "built with thread support"
           : "the program initialised MPI for one thread only, but a host communicator needs "
             "MPI_THREAD_SERIALIZED: call MPI_Init_thread with it, or leave MPI_Init to Muster");
}

// All ranks end when one of them cannot load Open MPI.
const MpiLibrary& load_mpi(const JobContext& job) {
  try {
    return MpiLibrary::get();
  } catch (const Error& error) {
    throw_rank_failure(job, error.code(), error.what());
  }
}

}  // namespace

bool can_start_mpi() {
  // Without PMIx the MPI_Init of every process creates a world of one rank.
  return MpiLibrary::is_initialised() || std::getenv("PMIX_RANK") != nullptr ||
         std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
}

std::shared_ptr<MpiSession> start_mpi(const JobContext& job, const Deadline& deadline) {
  const MpiLibrary& mpi = load_mpi(job);
  int initialised = 0;
  int finalized = 0;
  mpi.initialized(&initialised);
  mpi.finalized(&finalized);
  if (finalized != 0) {
    throw Error(ErrorCode::environment,
                "Open MPI was finalized in this process already and cannot start again: one job with a host "
                "communicator per process");
  }
  bool const yield = bootstrap::shares_cores(job.roster, job.rank);
  auto const init_state =
      job.plane ? job.plane->register_communicator("") : std::make_shared<control::OperationState>();
  survive_sigpipe();
  if (initialised == 0) {
    set_open_mpi_defaults(yield);
    if (auto const name = choose_tcp_interface(job.roster, job.rank); !name.empty())
      log::debug("open-mpi: uses TCP only over {}, on which the other hosts reach this one", name);
    run_mpi_call(job, *init_state, 1, "MPI_Init", deadline, [&mpi] {
      int provided = 0;
      return mpi.init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    });
  }
  log::debug("open-mpi: {}, yielding {}", initialised == 0 ? "initialised" : "the program had initialised it",
             yield);
  mpi.comm_set_errhandler(mpi.comm_world, mpi.errors_return);
  mpi.comm_set_errhandler(mpi.comm_self, mpi.errors_return);
  auto session = std::make_shared<Session>(initialised == 0, yield, init_state);
  check_threads(job, mpi, initialised == 0);
  check_ranks(job, mpi);
  return session;
}

}  // namespace muster::detail
