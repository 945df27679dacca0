// SPDX-License-Identifier: Apache-2.0
// One put, one commit, one collecting fence. Under Slurm a fence that collects nothing can be a barrier of
// one node only, PMIX_TIMEOUT does not bound waits for other nodes, and a second commit may not be seen: so
// every wait here runs under our own clock and PMIx is not used for anything afterwards.
#include <fmt/format.h>
#include <pmix.h>

#include <cstring>
#include <thread>

#include "bootstrap/membership.hpp"
#include "bootstrap/roster.hpp"
#include "bootstrap/slurm.hpp"
#include "bootstrap/this_process.hpp"
#include "log.hpp"

namespace muster::bootstrap {
namespace {

using std::chrono::milliseconds;
using Bytes = std::vector<std::uint8_t>;

// How long the ranks' records may take to arrive when the deadline has passed and only the missing are to be
// named.
constexpr milliseconds naming_grace{2000};
// How long a rank that is not the one to speak waits to be ended together with the job by the launcher.
constexpr milliseconds silent_grace{10000};
constexpr milliseconds finish_time{5000};
// Of the ranks below this one, those below it ask whether a lower one is there to speak.
constexpr int speakers = 8;

// Fresh in this job: a fence that collects needs a key that nobody has put before.
constexpr const char* hello_key = "muster.hello";

std::string reason(pmix_status_t status) { return PMIx_Error_string(status); }

// What callbacks on PMIx's own thread write and we wait for. Kept alive by whoever comes last.
struct Replies {
  explicit Replies(std::size_t count) : awaited(count), values(count) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t awaited;
  std::vector<std::optional<Bytes>> values;
  pmix_status_t failure = PMIX_SUCCESS;

  bool wait(const Deadline& deadline) {
    std::unique_lock lock(mutex);
    return changed.wait_until(lock, deadline.when(), [&] { return awaited == 0; });
  }
  void note(std::size_t index, pmix_status_t status, std::optional<Bytes> value) {
    std::lock_guard lock(mutex);
    if (status != PMIX_SUCCESS) failure = status;
    values[index] = std::move(value);
    if (--awaited == 0) changed.notify_all();
  }
};

struct Callback {
  std::shared_ptr<Replies> replies;
  std::size_t index;
};

void fence_done(pmix_status_t status, void* data) {
  std::unique_ptr<Callback> const callback(static_cast<Callback*>(data));
  callback->replies->note(callback->index, status, std::nullopt);
}

void value_found(pmix_status_t status, pmix_value_t* value, void* data) {
  std::unique_ptr<Callback> const callback(static_cast<Callback*>(data));
  std::optional<Bytes> bytes;
  if (status == PMIX_SUCCESS && value != nullptr && value->type == PMIX_BYTE_OBJECT) {
    auto const* const first = reinterpret_cast<const std::uint8_t*>(value->data.bo.bytes);
    bytes.emplace(first, first + value->data.bo.size);
  }
  callback->replies->note(callback->index, status, std::move(bytes));
}

class Pmix : public Membership {
 public:
  explicit Pmix(const pmix_proc_t& self) : self_(self) {
    size_ = static_cast<int>(number(PMIX_JOB_SIZE, PMIX_RANK_WILDCARD).value_or(0));
    local_rank_ = static_cast<int>(number(PMIX_LOCAL_RANK, self_.rank).value_or(0));
  }

  const char* name() const noexcept override { return "pmix"; }
  int rank() const noexcept override { return static_cast<int>(self_.rank); }
  int size() const noexcept override { return size_; }
  int local_rank() const noexcept override { return local_rank_; }
  std::string job_name() const { return self_.nspace; }

  std::vector<Record> exchange(const Record& mine, const Deadline& deadline) override;

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
  std::optional<std::uint64_t> number(const char* key, pmix_rank_t rank) const;
  std::string host_of(int rank) const;
  void put(Bytes bytes);
  bool fence(const Deadline& deadline);
  std::shared_ptr<Replies> get_from(int first, int count, const Deadline& deadline);
  [[noreturn]] void name_the_missing(const Deadline& deadline);

  pmix_proc_t self_;
  int size_ = 0;
  int local_rank_ = 0;
  bool finished_ = false;
};

std::optional<std::uint64_t> Pmix::number(const char* key, pmix_rank_t rank) const {
  pmix_proc_t proc = self_;
  proc.rank = rank;
  pmix_value_t* value = nullptr;
  if (PMIx_Get(&proc, key, nullptr, 0, &value) != PMIX_SUCCESS || value == nullptr) return std::nullopt;
  std::optional<std::uint64_t> found;
  if (value->type == PMIX_UINT32) found = value->data.uint32;
  if (value->type == PMIX_UINT16) found = value->data.uint16;
  PMIX_VALUE_RELEASE(value);
  return found;
}

std::string Pmix::host_of(int rank) const {
  pmix_proc_t proc = self_;
  proc.rank = static_cast<pmix_rank_t>(rank);
  // Only what the server told this process at start: a question to a missing rank could wait for ever.
  pmix_info_t here;
  PMIX_INFO_CONSTRUCT(&here);
  bool const yes = true;
  PMIX_INFO_LOAD(&here, PMIX_OPTIONAL, &yes, PMIX_BOOL);
  pmix_value_t* value = nullptr;
  std::string host;
  if (PMIx_Get(&proc, PMIX_HOSTNAME, &here, 1, &value) == PMIX_SUCCESS && value != nullptr) {
    if (value->type == PMIX_STRING && value->data.string != nullptr) host = value->data.string;
    PMIX_VALUE_RELEASE(value);
  }
  PMIX_INFO_DESTRUCT(&here);
  return host;
}

void Pmix::put(Bytes bytes) {
  pmix_value_t value;
  PMIX_VALUE_CONSTRUCT(&value);
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo.bytes = reinterpret_cast<char*>(bytes.data());
  value.data.bo.size = bytes.size();
  pmix_status_t status = PMIx_Put(PMIX_GLOBAL, hello_key, &value);
  if (status == PMIX_SUCCESS) status = PMIx_Commit();
  if (status != PMIX_SUCCESS)
    throw Error(Fault::system, "join: PMIx did not take this rank's hello: " + reason(status));
}

// False when the deadline passed.
bool Pmix::fence(const Deadline& deadline) {
  pmix_proc_t everyone = self_;
  everyone.rank = PMIX_RANK_WILDCARD;
  pmix_info_t collect;
  PMIX_INFO_CONSTRUCT(&collect);
  bool const yes = true;
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  auto replies = std::make_shared<Replies>(1);
  auto callback = std::make_unique<Callback>(Callback{replies, 0});
  pmix_status_t const status = PMIx_Fence_nb(&everyone, 1, &collect, 1, fence_done, callback.get());
  PMIX_INFO_DESTRUCT(&collect);
  if (status != PMIX_SUCCESS) throw Error(Fault::system, "join: PMIx refused the fence: " + reason(status));
  callback.release();  // fence_done owns it now
  if (!replies->wait(deadline)) return false;
  if (replies->failure != PMIX_SUCCESS) {
    throw Error(Fault::system,
                "join: the PMIx fence failed (a rank or its node ended?): " + reason(replies->failure),
                rank() != 0);
  }
  return true;
}

// Asks for the records of the ranks first … first + count - 1 at once and waits until all came or the
// deadline passed.
std::shared_ptr<Replies> Pmix::get_from(int first, int count, const Deadline& deadline) {
  auto replies = std::make_shared<Replies>(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    pmix_proc_t proc = self_;
    proc.rank = static_cast<pmix_rank_t>(first + i);
    auto callback = std::make_unique<Callback>(Callback{replies, static_cast<std::size_t>(i)});
    pmix_status_t const status = PMIx_Get_nb(&proc, hello_key, nullptr, 0, value_found, callback.get());
    if (status == PMIX_SUCCESS) {
      callback.release();
    } else {
      replies->note(static_cast<std::size_t>(i), status, std::nullopt);
    }
  }
  replies->wait(deadline);
  return replies;
}

// The deadline has passed. Whoever put up a hello answers a direct question for it, so the lowest rank that
// is there can tell who is not. The others keep silent and connected: a client that ends makes the launcher
// end them all, also the one that still speaks.
void Pmix::name_the_missing(const Deadline& deadline) {
  int const below = std::min(rank(), speakers);
  if (below > 0) {
    auto const replies = get_from(0, below, Deadline(naming_grace));
    std::unique_lock lock(replies->mutex);
    bool const other_speaks = std::any_of(replies->values.begin(), replies->values.end(),
                                          [](const auto& value) { return value.has_value(); });
    lock.unlock();
    if (other_speaks) {
      std::this_thread::sleep_for(silent_grace);
      throw Error(Fault::deadline, "join: not every rank came in time", true);
    }
  }
  auto const replies = get_from(0, size_, Deadline(naming_grace));
  std::lock_guard const lock(replies->mutex);
  std::vector<Hello> roster(static_cast<std::size_t>(size_));
  std::vector<int> missing;
  for (int r = 0; r < size_; ++r) {
    auto const index = static_cast<std::size_t>(r);
    roster[index].rank = r;
    if (replies->values[index]) continue;
    auto const host = host_of(r);
    roster[index].host = host.empty() ? "unknown" : host;
    missing.push_back(r);
  }
  auto const who = missing.empty() ? "all said hello but the fence did not end"
                                   : name_of_ranks(roster, missing, 8) + " said no hello";
  throw Error(Fault::deadline, fmt::format("join: {} of {} ranks missing after {}: {}", missing.size(), size_,
                                           text_of(deadline.length()), who));
}

std::vector<Record> Pmix::exchange(const Record& mine, const Deadline& deadline) {
  put(encode(mine));
  log::debug("join: PMIx: hello put up, waiting for {} ranks", size_);
  if (!fence(deadline)) name_the_missing(deadline);
  log::debug("join: PMIx: fence done");
  auto const replies = get_from(0, size_, Deadline(std::max(deadline.remaining(), milliseconds{1000})));
  std::lock_guard const lock(replies->mutex);
  std::vector<Record> records;
  for (int r = 0; r < size_; ++r) {
    auto const& bytes = replies->values[static_cast<std::size_t>(r)];
    if (!bytes) throw Error(Fault::system, fmt::format("join: PMIx lost the hello of rank {}", r));
    records.push_back(decode(*bytes));
    if (records.back().hello.rank != r)
      throw Error(Fault::system, fmt::format("join: the hello of rank {} names another rank", r));
  }
  log::debug("join: PMIx: {} hellos read", size_);
  return records;
}

}  // namespace

std::unique_ptr<Membership> connect_pmix(const Deadline& deadline) {
  if (variable("PMIX_NAMESPACE").empty() || variable("PMIX_RANK").empty()) {
    log::debug("join: PMIx: no server (PMIX_NAMESPACE is not set)");
    return nullptr;
  }
  // A server that has seen a rank finalize fails the fence of those that come back first: "partial success",
  // 1 of 10 runs.
  static bool joined = false;
  if (joined)
    throw Error(Fault::usage,
                "join: this process has joined its job before; a process joins once under PMIx");
  auto self = std::make_shared<pmix_proc_t>();
  auto const status = run_bounded([self] { return PMIx_Init(self.get(), nullptr, 0); }, deadline);
  if (!status) {
    throw Error(
        Fault::deadline,
        fmt::format(
            "join: the PMIx server on host {} did not answer within {}: see the log of slurmd or mpirun "
            "there",
            hello_of_this_process().host, text_of(deadline.length())),
        variable("PMIX_RANK") != "0");
  }
  if (*status != PMIX_SUCCESS) {
    log::debug("join: PMIx: {}", reason(*status));
    if (auto const refusal = refusal_without_pmix(variable, reason(*status))) throw *refusal;
    return nullptr;
  }
  joined = true;
  auto membership = std::make_unique<Pmix>(*self);
  log::set_rank(membership->rank());
  log::debug("join: PMIx: connected to {}, {} ranks", membership->job_name(), membership->size());
  if (membership->size() == 1 && is_step_of_several(variable)) {
    // What PMIx makes of a process that no server of this step serves (srun --mpi=none, pmi2).
    log::debug("join: PMIx: counts 1 rank where Slurm started several: left");
    membership->finish();
    return nullptr;
  }
  auto disagreement = disagreement_about_size(variable, membership->job_name(), membership->size());
  if (!disagreement && membership->size() < 1) {
    disagreement = Error(Fault::environment, "join: PMIx does not say how many ranks the job has");
  }
  if (disagreement) {
    membership->finish();
    throw *disagreement;
  }
  return membership;
}

}  // namespace muster::bootstrap
