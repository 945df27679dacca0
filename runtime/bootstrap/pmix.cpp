// SPDX-License-Identifier: Apache-2.0
// One put, one commit, one collecting fence. Under Slurm a fence that collects nothing can be a barrier of
// one node only, PMIX_TIMEOUT does not bound waits for other nodes, and a second commit may not be seen: so
// every wait here runs under our own clock and PMIx is not used for anything afterwards.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "bootstrap/open_mpi_process.hpp"
#include "bootstrap/pmix_client.hpp"
#include "launcher/launcher_detection.hpp"
#include "launcher/local_hello.hpp"
#include "log.hpp"
#include "rendezvous/missing_ranks.hpp"
#include "rendezvous/process_report.hpp"
#include "roster/bootstrap.hpp"

namespace muster::bootstrap {
namespace {

using std::chrono::milliseconds;

// How long the ranks' records may take to arrive when the deadline has passed and only the missing are to be
// named.
constexpr milliseconds naming_grace{2000};
// How long a rank that is not the one to speak waits to be ended together with the job by the launcher.
constexpr milliseconds silent_grace{10000};
constexpr milliseconds finish_time{5000};
// Of the ranks below this one, those below it ask whether a lower one is there to speak.
constexpr int speakers = 8;

// What the server of this host answers takes no longer.
constexpr milliseconds local_grace{500};

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

class Pmix : public Bootstrap {
 public:
  explicit Pmix(const pmix_proc_t& self) : client_(self) {
    size_ = static_cast<int>(client_.number(PMIX_JOB_SIZE, PMIX_RANK_WILDCARD).value_or(0));
    local_rank_ = static_cast<int>(client_.number(PMIX_LOCAL_RANK, self.rank).value_or(0));
  }

  const char* name() const noexcept override { return "pmix"; }
  int rank() const noexcept override { return client_.rank(); }
  int size() const noexcept override { return size_; }
  int local_rank() const noexcept override { return local_rank_; }
  std::string job_name() const { return client_.job_name(); }

  std::vector<JoinRecord> exchange(const JoinRecord& mine, const Deadline& deadline) override;

  // A server that does not answer any longer must not hold the end of the process.
  void finish() noexcept override {
    if (finished_) return;
    finished_ = true;
    try {
      if (!run_bounded([] { return PMIx_Finalize(nullptr, 0); }, Deadline(finish_time)))
        log::debug("leave: PMIx_Finalize did not end within {}", text_of(finish_time));
    } catch (const std::exception& error) {
      log::debug("leave: PMIx_Finalize: {}", error.what());
    }
  }

 private:
  std::pair<int, std::optional<JoinRecord>> speaker();
  bool is_witness();
  [[noreturn]] void name_the_missing(const JoinRecord& mine, const Deadline& deadline);

  PmixClient client_;
  std::optional<ProcessReportServer> stand_;  // on ranks that may have to name the missing
  int size_ = 0;
  int local_rank_ = 0;
  bool finished_ = false;
};

// The lowest rank that is there and below the first few, this one included.
std::pair<int, std::optional<JoinRecord>> Pmix::speaker() {
  auto const replies = client_.get(first_ranks(std::min(rank(), speakers)));
  auto const index = replies->wait_for_first(Deadline(naming_grace));
  if (!index) return {rank(), std::nullopt};
  return {static_cast<int>(*index), decode(*replies->so_far()[*index])};
}

// Of each host the lowest rank that is there tells the one that speaks what runs on it.
bool Pmix::is_witness() {
  std::vector<int> lower;
  for (int const peer : client_.peers())
    if (peer < rank()) lower.push_back(peer);
  return !client_.get(lower)->wait_for_first(Deadline(local_grace));
}

// The deadline has passed. Whoever put up a hello answers a direct question for it, so the lowest rank that
// is there can tell who is not. The others keep silent and connected: a client that ends makes the launcher
// end them all, also the one that still speaks.
void Pmix::name_the_missing(const JoinRecord& mine, const Deadline& deadline) {
  auto const processes = find_rank_processes(variable, name());
  if (auto const [who, record] = speaker(); record) {
    log::debug("join: PMIx: rank {} names the missing", who);
    if (is_witness()) testify(*record, mine, processes, Deadline(naming_grace));
    std::this_thread::sleep_for(silent_grace);
    throw Error(ErrorCode::deadline, "join: not every rank came in time", true);
  }
  auto const replies = client_.get(first_ranks(size_));
  JoinProgress attendance;
  Deadline const enough(naming_grace);
  if (stand_) attendance.seen_on_host = stand_->hear(enough);
  replies->wait(enough);
  attendance.seen_on_host[mine.hello.host] = processes;
  attendance.size = size_;
  attendance.started_together = job_name().starts_with("slurm.pmix.");
  auto const hellos = replies->so_far();
  for (int r = 0; r < size_; ++r) {
    auto const& hello = hellos[static_cast<std::size_t>(r)];
    if (hello) attendance.present.insert(r);
    attendance.host_of.push_back(hello ? decode(*hello).hello.host : client_.host_of(r));
  }
  throw Error(ErrorCode::deadline, describe_missing_ranks(attendance, deadline.length()));
}

std::vector<JoinRecord> Pmix::exchange(const JoinRecord& mine, const Deadline& deadline) {
  auto put_up = mine;
  if (rank() < speakers) {
    stand_.emplace(size_);
    put_up.witness_port = stand_->port();
    put_up.witness_key.assign(stand_->key().begin(), stand_->key().end());
  }
  client_.put(encode(put_up));
  log::debug("join: PMIx: hello put up, waiting for {} ranks", size_);
  if (!client_.fence(deadline)) name_the_missing(mine, deadline);
  log::debug("join: PMIx: fence done");
  stand_.reset();
  auto const replies = client_.get(first_ranks(size_));
  replies->wait(Deadline(std::max(deadline.remaining(), milliseconds{1000})));
  auto const hellos = replies->so_far();
  std::vector<JoinRecord> records;
  for (int r = 0; r < size_; ++r) {
    auto const& bytes = hellos[static_cast<std::size_t>(r)];
    if (!bytes) throw Error(ErrorCode::system, fmt::format("join: PMIx lost the hello of rank {}", r));
    records.push_back(decode(*bytes));
    if (records.back().hello.rank != r)
      throw Error(ErrorCode::system, fmt::format("join: the hello of rank {} names another rank", r));
  }
  log::debug("join: PMIx: {} hellos read", size_);
  return records;
}

}  // namespace

std::unique_ptr<Bootstrap> connect_pmix(const Deadline& deadline) {
  if (variable("PMIX_NAMESPACE").empty() || variable("PMIX_RANK").empty()) {
    log::debug("join: PMIx: no server (PMIX_NAMESPACE is not set)");
    return nullptr;
  }
  // A server that has seen a rank finalize fails the fence of those that come back first: "partial success",
  // 1 of 10 runs.
  static bool joined = false;
  if (joined)
    throw Error(ErrorCode::usage,
                "join: this process has joined its job before; a process joins once under PMIx");
  auto self = std::make_shared<pmix_proc_t>();
  auto const status = run_bounded([self] { return PMIx_Init(self.get(), nullptr, 0); }, deadline);
  if (!status)
    throw silence_of_pmix(variable, PMIx_Get_version(), make_hello().host, deadline.length());
  if (*status != PMIX_SUCCESS) {
    log::debug("join: PMIx: {}", reason_of(*status));
    if (auto const refusal = check_pmix_required(variable, reason_of(*status))) throw *refusal;
    return nullptr;
  }
  joined = true;
  name_open_mpi_process(*self);
  auto bootstrap = std::make_unique<Pmix>(*self);
  log::set_rank(bootstrap->rank());
  log::debug("join: PMIx: connected to {}, {} ranks", bootstrap->job_name(), bootstrap->size());
  if (bootstrap->size() == 1 && is_step_of_several(variable)) {
    // What PMIx makes of a process that no server of this step serves (srun --mpi=none, pmi2).
    log::debug("join: PMIx: counts 1 rank where Slurm started several: left");
    bootstrap->finish();
    return nullptr;
  }
  auto disagreement = check_size_consistency(variable, bootstrap->job_name(), bootstrap->size());
  if (!disagreement && bootstrap->size() < 1) {
    disagreement = Error(ErrorCode::environment, "join: PMIx does not say how many ranks the job has");
  }
  if (disagreement) {
    bootstrap->finish();
    throw *disagreement;
  }
  return bootstrap;
}

}  // namespace muster::bootstrap
