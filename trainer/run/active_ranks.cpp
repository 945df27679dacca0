// SPDX-License-Identifier: Apache-2.0
#include "run/active_ranks.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "config/elastic_range.hpp"

namespace muster {
namespace {

constexpr const char* end_key = "training ended";
constexpr const char* growth = "growth";
constexpr std::chrono::seconds wait_time{30};

}  // namespace

ActiveRanks::ActiveRanks(const Options& options, Job& job)
    : job_(&job),
      size_(std::min(job.size(), elastic_range(options).most)),
      host_(restrict(job.host_world())) {}

int ActiveRanks::host_count() const {
  const std::vector<int> all = hosts();
  return *std::max_element(all.begin(), all.end()) + 1;
}

std::vector<int> ActiveRanks::hosts() const {
  std::map<std::pair<std::string, std::string>, int> numbers;
  std::vector<int> hosts;
  for (const Hello& hello : job_->roster()) {
    if (hello.rank >= size_) break;
    const auto next = static_cast<int>(numbers.size());
    hosts.push_back(numbers.try_emplace({hello.host, hello.boot_id}, next).first->second);
  }
  return hosts;
}

std::vector<Hello> ActiveRanks::spares() const {
  const std::vector<Hello>& all = job_->roster();
  return {all.begin() + size_, all.end()};
}

std::optional<int> ActiveRanks::wait_for_end() const {
  while (true) {
    try {
      const std::string text = job_->store().get(end_key, wait_time);
      return text == growth ? std::nullopt : std::optional(std::stoi(text));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::deadline) throw;
    }
    job_->store().check(end_key);  // throws when it was the job's deadline and not only this wait's
  }
}

void ActiveRanks::announce_growth() const {
  if (has_spares()) job_->store().put(end_key, growth);
}

void ActiveRanks::withdraw_growth() const {
  if (has_spares()) job_->store().delete_key(end_key);
}

void ActiveRanks::release_spares(int exit_code) const {
  if (has_spares()) job_->store().put(end_key, std::to_string(exit_code));
}

Communicator ActiveRanks::tensors() const { return job_->on_gpu() ? restrict(job_->world()) : host_; }

Communicator ActiveRanks::restrict(const Communicator& all) const {
  return has_spares() ? all.split(is_spare() ? 1 : 0) : all;
}

}  // namespace muster
