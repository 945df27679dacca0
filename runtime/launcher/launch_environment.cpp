// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch_environment.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace muster::bootstrap {
namespace {

constexpr int first_port = 10000;
constexpr int last_port = 29999;
constexpr std::size_t derived_ports = 8;

// Nothing for anything that is not a whole number within the limits.
std::optional<int> number(const std::string& text, int low, int high) {
  int value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (value < low || value > high) return std::nullopt;
  return value;
}

constexpr int most_ranks = 1 << 24;
constexpr std::size_t most_hosts = 1u << 20;
constexpr std::size_t longest_host = 255;  // RFC 1035, with the dots
constexpr std::size_t most_brackets = 8;   // in one name

int required(const GetEnv& variable, const char* name, int low, int high) {
  auto const text = variable(name);
  if (auto const value = number(text, low, high)) return *value;
  throw Error(ErrorCode::environment,
              fmt::format("join: {}='{}' is not a whole number from {} to {}", name, text, low, high));
}

// "2(x3),1" → 2 2 2 1
std::vector<int> counts_in(const std::string& list) {
  std::vector<int> counts;
  std::size_t at = 0;
  while (at < list.size()) {
    auto const end = std::min(list.find(',', at), list.size());
    auto const item = list.substr(at, end - at);
    auto const times_at = item.find("(x");
    auto const count = number(item.substr(0, times_at), 0, most_ranks);
    int times = 1;
    if (times_at != std::string::npos)
      times = number(item.substr(times_at + 2, item.size() - times_at - 3), 1, most_ranks).value_or(0);
    if (!count || static_cast<std::size_t>(times) > most_hosts - counts.size()) return {};
    counts.insert(counts.end(), static_cast<std::size_t>(times), *count);
    at = end + 1;
  }
  return counts;
}

// Slurm says of no rank but this one where it is; only the two plain distributions tell of the others.
std::vector<std::string> hosts_by_rank(const SlurmStep& step, const std::vector<int>& counts,
                                       const std::string& distribution) {
  std::vector<std::string> host_of(static_cast<std::size_t>(step.size));
  if (counts.size() != step.hosts.size()) return host_of;
  auto left = counts;
  std::size_t rank = 0;
  bool const cyclic = distribution.starts_with("cyclic");
  if (!cyclic && !distribution.empty() && !distribution.starts_with("block")) return host_of;
  for (bool more = true; more;) {
    more = false;
    for (std::size_t node = 0; node < left.size(); ++node) {
      for (int n = cyclic ? std::min(left[node], 1) : left[node]; n > 0 && rank < host_of.size(); --n) {
        host_of[rank++] = step.hosts[node];
        --left[node];
        more = true;
      }
    }
  }
  return host_of;
}

// "001-003" → 001 002 003; false for anything else.
bool add_numbers(const std::string& item, std::vector<std::string>& numbers) {
  auto const dash = item.find('-');
  auto const low = number(item.substr(0, dash), 0, 99'999'999);
  auto const high = dash == std::string::npos ? low : number(item.substr(dash + 1), 0, 99'999'999);
  auto const width = std::min(dash, item.size());
  if (!low || !high || width > longest_host) return false;
  for (int n = *low; n <= *high; ++n) {
    if (numbers.size() == most_hosts) return false;
    numbers.push_back(fmt::format("{:0{}}", n, width));
  }
  return true;
}

// Cuts at the commas outside of brackets.
std::vector<std::string> items_in(const std::string& list) {
  std::vector<std::string> items(1);
  bool bracket = false;
  for (char const c : list) {
    if (c == '[' || c == ']') bracket = c == '[';
    if (c == ',' && !bracket) {
      items.emplace_back();
    } else {
      items.back() += c;
    }
  }
  return items;
}

// The hosts of one item; none when it cannot be read.
std::vector<std::string> expand(const std::string& item, std::size_t limit) {
  auto const open = item.find('[');
  if (open == std::string::npos) return {item};
  if (static_cast<std::size_t>(std::count(item.begin(), item.end(), '[')) > most_brackets) return {};
  auto const close = item.find(']', open);
  if (close == std::string::npos) return {};
  std::vector<std::string> numbers;
  for (const auto& range : items_in(item.substr(open + 1, close - open - 1)))
    if (!add_numbers(range, numbers)) return {};
  auto const ends = expand(item.substr(close + 1), limit);
  std::vector<std::string> hosts;
  for (const auto& middle : numbers)
    for (const auto& end : ends) {
      if (hosts.size() == limit) return hosts;
      hosts.push_back(item.substr(0, open) + middle + end);
      if (hosts.back().size() > longest_host) return {};
    }
  return hosts;
}

// The first host, unless the step is of a heterogeneous job (srun a : b): its hosts are sorted by name, and
// its ranks count through its components in their order. Slurm 22.05 still says PACK where its manual says
// HET.
std::string host_of_rank_0(const GetEnv& variable, const std::vector<std::string>& hosts) {
  for (const char* kind : {"HET", "PACK"}) {
    for (int group = 0;; ++group) {
      auto const list = variable(fmt::format("SLURM_JOB_NODELIST_{}_GROUP_{}", kind, group).c_str());
      if (list.empty()) break;
      for (const auto& host : expand_hostlist(list))
        if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) return host;
    }
  }
  return hosts.front();
}

}  // namespace

std::vector<std::string> expand_hostlist(const std::string& list, std::size_t limit) {
  std::vector<std::string> hosts;
  for (const auto& item : items_in(list)) {
    if (hosts.size() >= limit) break;
    auto const found = expand(item, limit);
    if (found.empty() || found.front().empty()) return {};
    for (const auto& host : found) {
      if (host.size() > longest_host) return {};
      if (hosts.size() < limit) hosts.push_back(host);
    }
  }
  return hosts;
}

std::vector<std::uint16_t> parse_port_list(const std::string& list) {
  std::vector<std::uint16_t> ports;
  std::size_t at = 0;
  while (at < list.size()) {
    auto const end = std::min(list.find(',', at), list.size());
    auto const item = list.substr(at, end - at);
    auto const dash = item.find('-');
    auto const low = number(item.substr(0, dash), 1, 65535);
    auto const high = dash == std::string::npos ? low : number(item.substr(dash + 1), 1, 65535);
    if (!low || !high) return {};
    for (int port = *low; port <= *high; ++port) ports.push_back(static_cast<std::uint16_t>(port));
    at = end + 1;
  }
  return ports;
}

std::vector<std::uint16_t> derive_ports(const std::string& job) {
  std::vector<std::uint16_t> ports;
  std::array<std::uint8_t, 4 * derived_ports> hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(job.data()), job.size(),
                     nullptr, 0);
  for (std::size_t i = 0; i < derived_ports; ++i) {
    std::uint32_t value = 0;
    for (std::size_t b = 0; b < 4; ++b) value = (value << 8) | hash[4 * i + b];
    auto const port = static_cast<std::uint16_t>(first_port + value % (last_port - first_port + 1));
    if (std::find(ports.begin(), ports.end(), port) == ports.end()) ports.push_back(port);
  }
  return ports;
}

std::optional<SlurmStep> read_slurm_step(const GetEnv& variable) {
  if (variable("SLURM_STEP_ID").empty() || variable("SLURM_PROCID").empty()) return std::nullopt;
  if (number(variable("SLURM_STEP_NUM_TASKS"), 2, most_ranks) == std::nullopt) return std::nullopt;
  SlurmStep step;
  step.size = required(variable, "SLURM_STEP_NUM_TASKS", 2, most_ranks);
  step.rank = required(variable, "SLURM_PROCID", 0, step.size - 1);
  step.local_rank = required(variable, "SLURM_LOCALID", 0, step.size - 1);
  step.job = fmt::format("slurm/{}/{}.{}/{}", variable("SLURM_CLUSTER_NAME"), variable("SLURM_JOB_ID"),
                         variable("SLURM_STEP_ID"), variable("SLURM_RESTART_COUNT"));
  step.hosts = expand_hostlist(variable("SLURM_STEP_NODELIST"));
  if (step.hosts.empty())
    throw Error(ErrorCode::environment, fmt::format("join: SLURM_STEP_NODELIST='{}' names no hosts",
                                                    variable("SLURM_STEP_NODELIST")));
  step.host_index = number(variable("SLURM_NODEID"), 0, static_cast<int>(step.hosts.size()) - 1).value_or(-1);
  step.leader_host = host_of_rank_0(variable, step.hosts);
  step.host_of =
      hosts_by_rank(step, counts_in(variable("SLURM_STEP_TASKS_PER_NODE")), variable("SLURM_DISTRIBUTION"));
  step.ports = parse_port_list(variable("SLURM_STEP_RESV_PORTS"));
  return step;
}

std::optional<EnvRendezvous> read_env_rendezvous(const GetEnv& variable) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    if (variable(name).empty()) return std::nullopt;
  EnvRendezvous meeting;
  meeting.size = required(variable, "WORLD_SIZE", 1, most_ranks);
  if (meeting.size == 1) return std::nullopt;
  meeting.rank = required(variable, "RANK", 0, meeting.size - 1);
  if (!variable("LOCAL_RANK").empty())
    meeting.local_rank = required(variable, "LOCAL_RANK", 0, meeting.size - 1);
  meeting.local_size = number(variable("LOCAL_WORLD_SIZE"), 1, meeting.size).value_or(0);
  meeting.host = variable("MASTER_ADDR");
  int const master = required(variable, "MASTER_PORT", 1, 65535);
  meeting.port = static_cast<std::uint16_t>(master < 65535 ? master + 1 : master - 1);
  if (!variable("MUSTER_PORT").empty())
    meeting.port = static_cast<std::uint16_t>(required(variable, "MUSTER_PORT", 1, 65535));
  meeting.job =
      fmt::format("address/{}/{}/{}/{}", meeting.host, master, meeting.size, variable("TORCHELASTIC_RUN_ID"));
  return meeting;
}

bool is_below_torchrun(const GetEnv& variable) {
  return !variable("TORCHELASTIC_RUN_ID").empty() && !variable("RANK").empty() &&
         !variable("WORLD_SIZE").empty();
}

std::optional<Error> check_rank_consistency(const GetEnv& variable, int rank, int size) {
  auto const said_rank = variable("RANK");
  auto const said_size = variable("WORLD_SIZE");
  if (said_rank.empty() || said_size.empty()) return std::nullopt;
  if (said_rank == std::to_string(rank) && said_size == std::to_string(size)) return std::nullopt;
  auto const set = "," + variable("MUSTER_SET") + ",";
  bool const of_plugin = set.find(",RANK,") != std::string::npos && said_rank == variable("SLURM_PROCID") &&
                         said_size == variable("SLURM_STEP_NUM_TASKS");
  if (of_plugin) return std::nullopt;
  return Error(
      ErrorCode::environment,
      fmt::format("join: RANK={} and WORLD_SIZE={} but the launcher made this process rank {} of {}: "
                  "unset RANK and WORLD_SIZE, or set MUSTER_JOIN=address when another program than "
                  "the launcher started the ranks",
                  said_rank, said_size, rank, size),
      rank != 0);
}

}  // namespace muster::bootstrap
