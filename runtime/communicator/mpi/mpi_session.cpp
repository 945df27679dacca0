// SPDX-License-Identifier: Apache-2.0
#include "communicator/mpi/mpi_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <numeric>
#include <system_error>
#include <utility>

#include "communicator/mpi/mpi_session.hpp"
#include "communicator/mpi/lost_rank_reports.hpp"
#include "communicator/mpi/mpi_communicator.hpp"
#include "communicator/mpi/mpi_interface.hpp"
#include "log.hpp"
#include "roster/roster.hpp"

namespace muster::detail {
namespace {

// The user's and the administrator's settings of Open MPI come first.
void set_default(const char* name, const char* value) { setenv(name, value, 0); }

// Whether this host has adapters on which Open MPI would leave TCP: InfiniBand, RoCE, EFA, Omni-Path or
// Slingshot.
bool has_fabric() {
  return std::ranges::any_of(std::array{"/sys/class/infiniband", "/sys/class/cxi"}, [](const char* folder) {
    std::error_code error;
    std::filesystem::directory_iterator const first(folder, error);
    return !error && first != std::filesystem::directory_iterator();
  });
}

void tune(bool yield) {
  // Waiting ranks give their core away where ranks share cores (mpi_yield_when_idle).
  if (yield) set_default("OMPI_MCA_mpi_yield_when_idle", "1");
  // Open MPI's remarks about transports that a machine has but that are not used, and about a CUDA that is
  // not there.
  set_default("OMPI_MCA_btl_base_warn_component_unused", "0");
  set_default("OMPI_MCA_opal_warn_on_missing_libcuda", "0");
  // From Open MPI 5 on MPI_Init then returns its error, which becomes our line; before, it ends the process.
  set_default("OMPI_MCA_mpi_initial_errhandler", "mpi_errors_return");
  // When a connection of TCP breaks, Open MPI 5 ends the process before the rank that is gone can be named.
  // With fault tolerance the operation fails instead, but what runs on a fabric (UCX, Libfabric) is not used
  // then.
  if (!has_fabric()) set_default("OMPI_MCA_mpi_ft_enable", "1");
    // Wherever fault tolerance is on, also where the user turned it on.
#ifdef MUSTER_HAVE_PMIX
  keep_lost_rank_reports();
#endif
}

// Every rank may meet it, or this one alone: one of them says it.
[[noreturn]] void refuse(const JobContext& job, ErrorCode code, const std::string& text) {
  if (job.plane) job.plane->give_up(code, text);
  throw Error(code, text);
}

std::string this_rank(const JobContext& job) {
  return bootstrap::describe_rank(job.roster[static_cast<std::size_t>(job.rank)]);
}

[[noreturn]] void fail(const JobContext& job, ErrorCode code, const std::string& what) {
  refuse(job, code, fmt::format("{} on {}", what, this_rank(job)));
}

void check_ranks(const JobContext& job) {
  int rank = -1;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == job.rank && size == static_cast<int>(job.roster.size())) return;
  refuse(job, ErrorCode::environment,
         fmt::format("Open MPI counts {} of {} as rank {} of {}: start the program with srun --mpi=pmix or "
                     "with the mpirun of the Open MPI that libmuster was built with",
                     this_rank(job), job.roster.size(), rank, size));
}

std::vector<int> everyone(const JobContext& job) {
  std::vector<int> ranks(job.roster.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// A call of MPI in which ranks wait for each other without a deadline; the `number`th of these.
void run_in_mpi(const JobContext& job, control::OperationState& here, std::uint64_t number, const char* name,
                const Deadline& deadline, std::function<int()> call) {
  here.operation = name;
  here.number = number;
  here.inside = true;
  auto const code =
      run_bounded(std::move(call), deadline, [plane = job.plane] { return plane && plane->failed(); });
  // Those who are stuck in it are named.
  if (!code && job.plane) job.plane->stalled("", everyone(job), number, name, deadline.length());
  if (!code)
    fail(job, ErrorCode::deadline, fmt::format("{} did not end within {}", name, text_of(deadline.length())));
  here.inside = false;
  if (*code != MPI_SUCCESS) fail(job, ErrorCode::system, fmt::format("{} failed with code {}", name, *code));
}

class Session : public MpiSession {
 public:
  Session(bool owner, bool yield, std::shared_ptr<control::OperationState> starting)
      : owner_(owner), starting_(std::move(starting)), state_(std::make_shared<MpiState>()) {
    state_->types = std::make_unique<MpiTypes>();
    state_->yield = yield;
  }

  std::shared_ptr<CommunicatorBackend> world(CommunicatorGroup group) override {
    return MpiCommunicator::world(state_, std::move(group));
  }

  void finish(const JobContext& job, const Deadline& deadline) override {
    if (!state_->open.exchange(false)) return;
    {
      // A thread of the program that is inside an operation ends it at its next look.
      std::lock_guard const lock(state_->calls);
      state_->types->free();
    }
    if (!owner_) return;
    try {
      run_in_mpi(job, *starting_, 2, "MPI_Finalize", deadline, [state = state_] {
        std::lock_guard const lock(state->calls);
        return MPI_Finalize();
      });
    } catch (const Error& error) {
      throw Error(error.code(),
                  fmt::format("{}; all work was done by then: if it comes again try another transport "
                              "(OMPI_MCA_pml=ob1), or see where these processes are (gdb -p)",
                              error.what()),
                  error.reported_elsewhere());
    }
    log::debug("leave: MPI finalized");
  }

 private:
  bool owner_;
  std::shared_ptr<control::OperationState> starting_;  // lives on: others may still be asked about it
  std::shared_ptr<MpiState> state_;
};

// Waits that have no deadline of their own run on a second thread.
void check_threads(const JobContext& job, bool ours) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  if (provided >= MPI_THREAD_SERIALIZED) return;
  refuse(job, ErrorCode::environment,
         ours ? "this Open MPI does not give MPI_THREAD_SERIALIZED, which a host communicator needs: use one "
                "built with thread support"
              : "the program initialised MPI for one thread only, but a host communicator needs "
                "MPI_THREAD_SERIALIZED: call MPI_Init_thread with it, or leave MPI_Init to Muster");
}

}  // namespace

std::string mpi_reason(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return fmt::format("MPI error {}", code);
  return {text.data(), static_cast<std::size_t>(length)};
}

bool can_start_mpi() {
  int initialised = 0;
  MPI_Initialized(&initialised);
  // Without PMIx every process's MPI_Init makes a world of one.
  return initialised != 0 || std::getenv("PMIX_RANK") != nullptr ||
         std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
}

std::shared_ptr<MpiSession> start_mpi(const JobContext& job, const Deadline& deadline) {
  int initialised = 0;
  int finalized = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalized);
  if (finalized != 0) {
    throw Error(ErrorCode::environment,
                "Open MPI was finalized in this process already and cannot start again: one job with a host "
                "communicator per process");
  }
  bool const yield = bootstrap::shares_cores(job.roster, job.rank);
  auto const starting = job.plane ? job.plane->follow_activity("") : std::make_shared<control::OperationState>();
  if (initialised == 0) {
    tune(yield);
    if (auto const name = choose_tcp_interface(job.roster, job.rank); !name.empty())
      log::debug("open-mpi: TCP over {} alone, on which the other hosts reach this one", name);
    run_in_mpi(job, *starting, 1, "MPI_Init", deadline, [] {
      int provided = 0;
      return MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    });
  }
  log::debug("open-mpi: {}, yielding {}", initialised == 0 ? "initialised" : "the program had initialised it",
             yield);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  auto session = std::make_shared<Session>(initialised == 0, yield, starting);
  check_threads(job, initialised == 0);
  check_ranks(job);
  return session;
}

}  // namespace muster::detail
