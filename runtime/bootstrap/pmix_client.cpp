// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/pmix_client.hpp"

#include <charconv>
#include <sstream>

#include "muster/error.hpp"

namespace muster::bootstrap {

using Bytes = PmixRequests::Bytes;

std::string describe_status(pmix_status_t status) { return PMIx_Error_string(status); }

bool PmixRequests::wait(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline.when(), [&] { return outstanding_ == 0; });
}

std::optional<std::size_t> PmixRequests::wait_for_first(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.when(),
                      [&] { return outstanding_ == 0 || (!values_.empty() && values_[0]); });
  for (std::size_t i = 0; i < values_.size(); ++i)
    if (values_[i]) return i;
  return std::nullopt;
}

std::vector<std::optional<Bytes>> PmixRequests::snapshot() {
  std::lock_guard lock(mutex_);
  return values_;
}

pmix_status_t PmixRequests::failure() {
  std::lock_guard lock(mutex_);
  return failure_;
}

void PmixRequests::complete(std::size_t index, pmix_status_t status, std::optional<Bytes> value) {
  std::lock_guard lock(mutex_);
  if (status != PMIX_SUCCESS) failure_ = status;
  values_[index] = std::move(value);
  --outstanding_;
  changed_.notify_all();
}

namespace {

// New in this job: a collecting fence needs a key that no rank has put before.
constexpr const char* hello_key = "muster.hello";
// The server is on this host and answers in less than 1 ms. One that hangs must not hold the join.
constexpr std::chrono::milliseconds server_timeout{10'000};

struct Callback {
  std::shared_ptr<PmixRequests> requests;
  std::size_t index;
};

void fence_done(pmix_status_t status, void* data) {
  std::unique_ptr<Callback> const callback(static_cast<Callback*>(data));
  callback->requests->complete(callback->index, status, std::nullopt);
}

void value_found(pmix_status_t status, pmix_value_t* value, void* data) {
  std::unique_ptr<Callback> const callback(static_cast<Callback*>(data));
  std::optional<Bytes> bytes;
  if (status == PMIX_SUCCESS && value != nullptr && value->type == PMIX_BYTE_OBJECT) {
    auto const* const first = reinterpret_cast<const std::uint8_t*>(value->data.bo.bytes);
    bytes.emplace(first, first + value->data.bo.size);
  }
  callback->requests->complete(callback->index, status, std::move(bytes));
}

}  // namespace

int get_pmix_number(const pmix_proc_t& self, const char* key, pmix_rank_t rank) {
  pmix_proc_t proc = self;
  proc.rank = rank;
  pmix_value_t* value = nullptr;
  if (PMIx_Get(&proc, key, nullptr, 0, &value) != PMIX_SUCCESS || value == nullptr) return 0;
  int number = 0;
  if (value->type == PMIX_UINT32) number = static_cast<int>(value->data.uint32);
  if (value->type == PMIX_UINT16) number = value->data.uint16;
  PMIX_VALUE_RELEASE(value);
  return number;
}

// Only what the server provided at start (PMIX_OPTIONAL): a query about a missing rank could wait forever.
std::string PmixClient::get_text(const char* key, int rank) const {
  pmix_proc_t proc = self_;
  proc.rank = static_cast<pmix_rank_t>(rank);
  pmix_info_t here;
  PMIX_INFO_CONSTRUCT(&here);
  bool const yes = true;
  PMIX_INFO_LOAD(&here, PMIX_OPTIONAL, &yes, PMIX_BOOL);
  pmix_value_t* value = nullptr;
  std::string text;
  if (PMIx_Get(&proc, key, &here, 1, &value) == PMIX_SUCCESS && value != nullptr) {
    if (value->type == PMIX_STRING && value->data.string != nullptr) text = value->data.string;
    PMIX_VALUE_RELEASE(value);
  }
  PMIX_INFO_DESTRUCT(&here);
  return text;
}

std::string PmixClient::find_host(int rank) const { return get_text(PMIX_HOSTNAME, rank); }

std::vector<int> PmixClient::local_peers() const {
  std::vector<int> ranks;
  auto list = get_text(PMIX_LOCAL_PEERS, rank());
  if (list.empty()) list = get_text(PMIX_LOCAL_PEERS, static_cast<int>(PMIX_RANK_WILDCARD));
  std::istringstream items(list);
  for (std::string item; std::getline(items, item, ',');) {
    int peer = -1;
    std::from_chars(item.data(), item.data() + item.size(), peer);
    if (peer >= 0 && peer != rank()) ranks.push_back(peer);
  }
  return ranks;
}

void PmixClient::put(Bytes bytes) {
  auto const status = run_bounded(
      [bytes = std::move(bytes)]() mutable {
        pmix_value_t value;
        PMIX_VALUE_CONSTRUCT(&value);
        value.type = PMIX_BYTE_OBJECT;
        value.data.bo.bytes = reinterpret_cast<char*>(bytes.data());
        value.data.bo.size = bytes.size();
        pmix_status_t const put = PMIx_Put(PMIX_GLOBAL, hello_key, &value);
        return put == PMIX_SUCCESS ? PMIx_Commit() : put;
      },
      Deadline(server_timeout));
  if (status == PMIX_SUCCESS) return;
  throw Error(ErrorCode::system, "join: PMIx did not take this rank's hello: " +
                                     (status ? describe_status(*status)
                                             : "no answer within " + format_duration(server_timeout)));
}

bool PmixClient::fence(const Deadline& deadline) {
  pmix_proc_t everyone = self_;
  everyone.rank = PMIX_RANK_WILDCARD;
  pmix_info_t collect;
  PMIX_INFO_CONSTRUCT(&collect);
  bool const yes = true;
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  auto requests = std::make_shared<PmixRequests>(1);
  auto callback = std::make_unique<Callback>(Callback{requests, 0});
  pmix_status_t const status = PMIx_Fence_nb(&everyone, 1, &collect, 1, fence_done, callback.get());
  PMIX_INFO_DESTRUCT(&collect);
  if (status != PMIX_SUCCESS)
    throw Error(ErrorCode::system, "join: PMIx refused the fence: " + describe_status(status));
  callback.release();  // fence_done owns it now
  if (!requests->wait(deadline)) return false;
  if (auto const failure = requests->failure(); failure != PMIX_SUCCESS) {
    throw Error(ErrorCode::system,
                "join: the PMIx fence failed (a rank or its node ended?): " + describe_status(failure),
                rank() != 0);
  }
  return true;
}

std::shared_ptr<PmixRequests> PmixClient::get(const std::vector<int>& ranks) {
  auto requests = std::make_shared<PmixRequests>(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    pmix_proc_t proc = self_;
    proc.rank = static_cast<pmix_rank_t>(ranks[i]);
    auto callback = std::make_unique<Callback>(Callback{requests, i});
    pmix_status_t const status = PMIx_Get_nb(&proc, hello_key, nullptr, 0, value_found, callback.get());
    if (status == PMIX_SUCCESS) {
      callback.release();
    } else {
      requests->complete(i, status, std::nullopt);
    }
  }
  return requests;
}

}  // namespace muster::bootstrap
