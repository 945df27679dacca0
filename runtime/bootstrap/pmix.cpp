// SPDX-License-Identifier: Apache-2.0
// One put, one commit, one collecting fence. Under Slurm, a fence that collects nothing can be a barrier of
// one node only, PMIX_TIMEOUT does not bound waits for other nodes, and a second commit may not be seen. So
// every wait here has our own deadline, and PMIx is not used for anything afterwards.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <numeric>
#include <thread>

#include "bootstrap/open_mpi_process.hpp"
#include "bootstrap/pmix_client.hpp"
#include "bootstrap/user_key.hpp"
#include "launcher/launcher_detection.hpp"
#include "launcher/local_hello.hpp"
#include "log.hpp"
#include "rendezvous/key_seal.hpp"
#include "rendezvous/missing_ranks.hpp"
#include "rendezvous/process_report.hpp"
#include "roster/bootstrap.hpp"

namespace muster::bootstrap {
namespace {

using std::chrono::milliseconds;

// How long the ranks' records may take to arrive after the deadline, to find the missing ranks.
constexpr milliseconds report_grace{2000};
// How long the other ranks stay silent, until the launcher ends them with the job.
constexpr milliseconds reporter_grace{10000};
constexpr milliseconds finalize_timeout{5000};
// A rank queries this many ranks to find the reporter.
constexpr int max_reporters = 8;
// How long the PMIx server of this host may take to answer.
constexpr milliseconds local_timeout{500};

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// The ranks that may be the reporter: spread over all, so that a host that is missing does not have all of
// them.
std::vector<int> possible_reporters(int size) {
  auto ranks = first_ranks(std::min(size, max_reporters));
  auto const count = static_cast<std::int64_t>(ranks.size());
  for (auto& rank : ranks) rank = static_cast<int>(rank * std::int64_t{size} / count);
  return ranks;
}

// What PMIx has of this process from the start.
struct PmixProcess {
  pmix_proc_t self{};
  int size = 0;
  int local_rank = 0;
};

class PmixBootstrap : public Bootstrap {
 public:
  explicit PmixBootstrap(const PmixProcess& process)
      : client_(process.self), size_(process.size), local_rank_(process.local_rank) {}

  const char* name() const noexcept override { return "pmix"; }
  int rank() const noexcept override { return client_.rank(); }
  int size() const noexcept override { return size_; }
  int local_rank() const noexcept override { return local_rank_; }
  std::string job_name() const { return client_.job_name(); }
  bool is_slurms() const { return job_name().starts_with("slurm.pmix."); }

  std::vector<JoinRecord> exchange(const JoinRecord& mine, const Deadline& deadline) override;
  void open_key(JoinRecord& rank_0, const Deadline& deadline) override;

  // A server that no longer answers must not hold the end of the process.
  void finalize() noexcept override {
    if (finalized_) return;
    finalized_ = true;
    try {
      if (!run_bounded([] { return PMIx_Finalize(nullptr, 0); }, Deadline(finalize_timeout)))
        log::debug("leave: PMIx_Finalize did not end within {}", format_duration(finalize_timeout));
    } catch (const std::exception& error) {
      log::debug("leave: PMIx_Finalize: {}", error.what());
    }
  }

 private:
  std::pair<int, std::optional<JoinRecord>> find_reporter();
  bool may_report() const;
  bool is_lowest_on_host();
  [[noreturn]] void throw_missing_ranks(const JoinRecord& mine, const Deadline& deadline);
  void publish(const JoinRecord& mine, const Deadline& deadline);
  KeySeal make_seal(const Deadline& deadline) const;

  PmixClient client_;
  std::optional<control::Key> user_key_;
  std::optional<ProcessReportServer> report_server_;  // on ranks that may be the reporter
  int size_;
  int local_rank_;
  bool finalized_ = false;
};

bool PmixBootstrap::may_report() const {
  auto const reporters = possible_reporters(size_);
  return std::binary_search(reporters.begin(), reporters.end(), rank());
}

// The lowest of the possible reporters that published its record, with it. Without a record this rank, if it
// is that one or none published.
std::pair<int, std::optional<JoinRecord>> PmixBootstrap::find_reporter() {
  auto reporters = possible_reporters(size_);
  if (may_report())
    reporters.erase(std::lower_bound(reporters.begin(), reporters.end(), rank()), reporters.end());
  auto const requests = client_.get(reporters);
  auto const index = requests->wait_for_first(Deadline(report_grace));
  if (!index) return {rank(), std::nullopt};
  return {reporters[*index], decode_record(*requests->snapshot()[*index])};
}

// The lowest rank of each host that published its record sends the process report.
bool PmixBootstrap::is_lowest_on_host() {
  std::vector<int> lower;
  for (int const peer : client_.local_peers())
    if (peer < rank()) lower.push_back(peer);
  return !client_.get(lower)->wait_for_first(Deadline(local_timeout));
}

// The deadline has passed. A direct get finds every published hello, so the lowest rank that published one
// can list the missing ranks. Other ranks stay silent and connected: a client that ends makes the launcher
// end all of them, including the reporter.
void PmixBootstrap::throw_missing_ranks(const JoinRecord& mine, const Deadline& deadline) {
  auto const processes = find_rank_processes(get_env, name());
  if (auto [reporter, record] = find_reporter(); record) {
    log::debug("join: PMIx: rank {} reports the missing ranks", reporter);
    if (is_lowest_on_host()) {
      auto seal = make_seal(Deadline(report_grace));
      send_process_report(seal, job_name(), *record, mine, processes, Deadline(report_grace));
    }
    std::this_thread::sleep_for(reporter_grace);
    throw Error(ErrorCode::deadline, "join: some ranks did not join in time", true);
  }
  auto const requests = client_.get(first_ranks(size_));
  JoinProgress progress;
  Deadline const limit(report_grace);
  if (report_server_) {
    auto seal = make_seal(limit);
    progress.processes_by_host = report_server_->collect(seal, job_name(), size_, limit);
  }
  requests->wait(limit);
  progress.processes_by_host[mine.hello.host] = processes;
  progress.size = size_;
  progress.tasks_start_together = is_slurms();
  auto const hellos = requests->snapshot();
  for (int r = 0; r < size_; ++r) {
    auto const& hello = hellos[static_cast<std::size_t>(r)];
    if (hello) progress.present.insert(r);
    progress.host_of.push_back(hello ? decode_record(*hello).hello.host : client_.find_host(r));
  }
  throw Error(ErrorCode::deadline, describe_missing_ranks(progress, deadline.length()));
}

KeySeal PmixBootstrap::make_seal(const Deadline& deadline) const {
  KeySeal::MakeMunge make_munge;
  if (is_slurms()) make_munge = [deadline] { return make_munge_codec(deadline, true); };
  return {make_munge, user_key_};
}

void PmixBootstrap::publish(const JoinRecord& mine, const Deadline& deadline) {
  auto published = mine;
  if (!mine.key.empty()) {
    published.sealed_key = make_seal(deadline).seal(mine.key);
    published.key.clear();
  }
  if (may_report() && mine.error.empty()) published.report_port = report_server_.emplace().port();
  client_.put(encode_record(published));
}

void PmixBootstrap::open_key(JoinRecord& rank_0, const Deadline& deadline) try {
  if (rank() != 0 && rank_0.key.empty()) rank_0.key = make_seal(deadline).open(rank_0.sealed_key);
} catch (const Error& error) {
  throw Error(error.code(), error.what(), local_rank_ != 0);
}

std::vector<JoinRecord> PmixBootstrap::exchange(const JoinRecord& mine, const Deadline& deadline) {
  user_key_ = read_user_key(get_env, job_name(), rank());
  publish(mine, deadline);
  log::debug("join: PMIx: hello published, waiting for {} ranks", size_);
  if (!client_.fence(deadline)) throw_missing_ranks(mine, deadline);
  log::debug("join: PMIx: fence done");
  report_server_.reset();
  auto const requests = client_.get(first_ranks(size_));
  requests->wait(Deadline(std::max(deadline.remaining(), milliseconds{1000})));
  auto const hellos = requests->snapshot();
  std::vector<JoinRecord> records;
  for (int r = 0; r < size_; ++r) {
    auto const& bytes = hellos[static_cast<std::size_t>(r)];
    if (!bytes) throw Error(ErrorCode::system, fmt::format("join: PMIx lost the hello of rank {}", r));
    records.push_back(decode_record(*bytes));
    if (records.back().hello.rank != r)
      throw Error(ErrorCode::system, fmt::format("join: the hello of rank {} names another rank", r));
  }
  if (rank() == 0) records.front().key = mine.key;
  log::debug("join: PMIx: {} hellos read", size_);
  return records;
}

// Where hundreds of ranks of a host connect at once, the server closes some connections, and PMIx connects
// again. It writes without MSG_NOSIGNAL, so SIGPIPE would end the process first. PMIx's own thread inherits
// the mask.
int init_without_sigpipe(PmixProcess& process) {
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
  auto const status = PMIx_Init(&process.self, nullptr, 0);
  if (status != PMIX_SUCCESS) return status;
  process.size = get_pmix_number(process.self, PMIX_JOB_SIZE, PMIX_RANK_WILDCARD);
  process.local_rank = get_pmix_number(process.self, PMIX_LOCAL_RANK, process.self.rank);
  return status;
}

}  // namespace

std::unique_ptr<Bootstrap> connect_pmix(const Deadline& deadline) {
  if (get_env("PMIX_NAMESPACE").empty() || get_env("PMIX_RANK").empty()) {
    log::debug("join: PMIx: no server (PMIX_NAMESPACE is not set)");
    return nullptr;
  }
  // After a rank has called PMIx_Finalize, the server fails the fence of the first ranks that join again
  // ("partial success", in 1 of 10 runs).
  static bool joined = false;
  if (joined)
    throw Error(ErrorCode::usage,
                "join: this process has joined its job before; a process joins once under PMIx");
  auto process = std::make_shared<PmixProcess>();
  auto const status = run_bounded([process] { return init_without_sigpipe(*process); }, deadline);
  if (!status)
    throw make_pmix_timeout_error(get_env, PMIx_Get_version(), make_hello().host, deadline.length());
  if (*status != PMIX_SUCCESS) {
    log::debug("join: PMIx: {}", describe_status(*status));
    if (auto const refusal = check_pmix_required(get_env, describe_status(*status))) throw *refusal;
    return nullptr;
  }
  joined = true;
  set_open_mpi_process_name();  // for an MPI_Init of the program
  auto bootstrap = std::make_unique<PmixBootstrap>(*process);
  log::set_rank(bootstrap->rank());
  log::debug("join: PMIx: connected to {}, {} ranks", bootstrap->job_name(), bootstrap->size());
  if (bootstrap->size() == 1 && is_step_of_several(get_env)) {
    // PMIx reports this to a process that no server of the step serves (srun --mpi=none, pmi2).
    log::debug("join: PMIx: not used, it reports 1 rank where Slurm started several");
    bootstrap->finalize();
    return nullptr;
  }
  if (auto const disagreement = check_size_consistency(get_env, bootstrap->job_name(), bootstrap->size())) {
    bootstrap->finalize();
    throw *disagreement;
  }
  return bootstrap;
}

}  // namespace muster::bootstrap
