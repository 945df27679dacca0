// SPDX-License-Identifier: Apache-2.0
#include "roster/roster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "cpu_set/cpu_set.hpp"

namespace muster::bootstrap {
namespace {

void check_versions(const std::vector<JoinRecord>& records) {
  const Hello& zero = records.front().hello;
  for (const auto& record : records) {
    const Hello& hello = record.hello;
    if (!is_same_release(hello.muster_version, zero.muster_version)) {
      throw Error(
          ErrorCode::environment,
          fmt::format("{} runs libmuster {} but {} runs {}: install the same version on every node",
                      describe_rank(hello), hello.muster_version, describe_rank(zero), zero.muster_version));
    }
    if (!hello.plugin_version.empty() && !is_same_release(hello.plugin_version, hello.muster_version)) {
      throw Error(
          ErrorCode::environment,
          fmt::format(
              "{} was placed by Muster's Slurm plugin {} but runs libmuster {}: install the same version of "
              "both on every node, or start the job with --muster=off",
              describe_rank(hello), hello.plugin_version, hello.muster_version));
    }
  }
}

void check_errors(const std::vector<JoinRecord>& records) {
  auto const has_error = [](const JoinRecord& record) { return !record.error.empty(); };
  auto const first = std::find_if(records.begin(), records.end(), has_error);
  if (first == records.end()) return;
  auto const additional = std::count_if(records.begin(), records.end(), has_error) - 1;
  auto text = first->error;
  if (additional > 0) text += fmt::format(" (and {} more rank{})", additional, additional == 1 ? "" : "s");
  throw Error(first->error_code, text);
}

void check_devices(std::span<const JoinRecord> records) {
  for (const auto& record : records) {
    if (record.on_gpu == records.front().on_gpu) continue;
    const JoinRecord& with = record.on_gpu ? record : records.front();
    const JoinRecord& without = record.on_gpu ? records.front() : record;
    throw Error(ErrorCode::environment,
                fmt::format("{} works on a GPU but {} has none: give every task a GPU "
                            "(--gpus-per-task=1), or use --device=cpu",
                            describe_rank(with.hello), describe_rank(without.hello)));
  }
}

}  // namespace

HostMap map_ranks_to_hosts(std::vector<Hello>& roster) {
  HostMap host_map;
  std::map<std::pair<std::string, std::string>, int> hosts;
  std::vector<int> ranks_on_host;
  for (auto& hello : roster) {
    auto const [at, added] = hosts.emplace(std::pair{hello.host, hello.boot_id}, host_map.hosts);
    if (added) {
      ++host_map.hosts;
      ranks_on_host.push_back(0);
    }
    host_map.host_of.push_back(at->second);
    hello.local_rank = ranks_on_host[static_cast<std::size_t>(at->second)]++;
  }
  return host_map;
}

std::vector<int> host_leaders(const std::vector<JoinRecord>& records) {
  std::map<std::tuple<std::string, std::string, std::string>, int> leaders;
  std::vector<int> leader_of;
  for (const auto& record : records) {
    std::tuple const host{record.hello.host, record.hello.boot_id, record.network};
    leader_of.push_back(leaders.emplace(host, record.hello.rank).first->second);
  }
  return leader_of;
}

std::vector<std::string> addresses_to_try(const JoinRecord& other, const JoinRecord& self) {
  auto addresses = other.addresses;
  if (other.hello.boot_id == self.hello.boot_id && other.network == self.network)
    addresses.insert(addresses.begin(), "127.0.0.1");
  return addresses;
}

std::string describe_rank(const Hello& hello) {
  if (hello.gpu.empty()) return fmt::format("rank {} (host {})", hello.rank, hello.host);
  return fmt::format("rank {} (host {}, GPU {})", hello.rank, hello.host, hello.gpu);
}

std::string describe_ranks(const std::vector<Hello>& roster, const std::vector<int>& ranks,
                           std::size_t shown) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < shown; ++i) {
    if (i > 0) text += ", ";
    text += describe_rank(roster.at(static_cast<std::size_t>(ranks[i])));
  }
  if (ranks.size() > shown) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

void check_roster(const std::vector<JoinRecord>& records, int cpu_ranks) {
  check_versions(records);
  check_errors(records);
  check_devices(std::span(records).subspan(std::min(static_cast<std::size_t>(cpu_ranks), records.size())));
}

bool shares_cores(const std::vector<Hello>& roster, int rank) {
  const Hello& self = roster.at(static_cast<std::size_t>(rank));
  auto const own = CpuSet::parse_list(self.cpus).value_or(CpuSet());
  if (own.empty()) return true;
  int rivals = 0;
  for (const auto& hello : roster) {
    if (hello.boot_id != self.boot_id) continue;
    if (own.intersects(CpuSet::parse_list(hello.cpus).value_or(CpuSet()))) ++rivals;
  }
  return rivals > own.size();
}

bool is_one_host(const std::vector<Hello>& roster, std::span<const int> ranks) {
  const Hello& first = roster.at(static_cast<std::size_t>(ranks.front()));
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    const Hello& hello = roster.at(static_cast<std::size_t>(rank));
    return hello.host == first.host && hello.boot_id == first.boot_id;
  });
}

bool any_shares_cores(const std::vector<Hello>& roster, std::span<const int> ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return shares_cores(roster, rank); });
}

}  // namespace muster::bootstrap
