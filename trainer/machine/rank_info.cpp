// SPDX-License-Identifier: Apache-2.0
#include "machine/rank_info.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace muster {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFacts, rank, host, gpus, cpus, memory, nics, placed, threads,
                                   peak_flops, processor, kernel, host_cpus, host_memory)

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// x86 has a name for people there, most others have not.
std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

}  // namespace

RankFacts facts_of_this_rank(const Hello& hello) {
  RankFacts f;
  f.rank = hello.rank;
  f.host = hello.host;
  f.cpus = hello.cpus;
  f.placed = !hello.plugin_version.empty();
  f.gpus = variable("MUSTER_GPUS");
  f.memory = variable("MUSTER_MEMORY");
  f.nics = variable("MUSTER_NICS");
  f.processor = processor_name();
  utsname system{};
  if (::uname(&system) == 0) f.kernel = std::string(system.sysname) + " " + system.release;
  f.host_cpus = static_cast<int>(::sysconf(_SC_NPROCESSORS_CONF));
  f.host_memory = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  return f;
}

std::vector<RankFacts> gather_facts(Communicator& world, const RankFacts& mine) {
  const std::string text =
      nlohmann::json(mine).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::uint64_t length = text.size();
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(world.size()));
  world.all_gather(std::span<const std::uint64_t>(&length, 1), std::span(lengths));
  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  std::size_t sum = 0;
  for (const std::size_t count : counts) sum += count;
  std::vector<std::uint8_t> all(sum);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  world.all_gather_v(std::span<const std::uint8_t>(bytes, text.size()), std::span(all), counts);
  std::vector<RankFacts> facts;
  std::size_t at = 0;
  for (const std::size_t count : counts) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(at);
    facts.push_back(
        nlohmann::json::parse(first, first + static_cast<std::ptrdiff_t>(count)).get<RankFacts>());
    at += count;
  }
  return facts;
}

}  // namespace muster
