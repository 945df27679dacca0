// SPDX-License-Identifier: Apache-2.0
#include "rank_facts.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace muster {
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

std::string as_text(const RankFacts& f) {
  const nlohmann::json json{{"rank", f.rank},
                            {"host", f.host},
                            {"gpus", f.gpus},
                            {"cpus", f.cpus},
                            {"memory", f.memory},
                            {"nics", f.nics},
                            {"placed", f.placed},
                            {"threads", f.threads},
                            {"peak_flops", f.peak_flops},
                            {"processor", f.processor},
                            {"kernel", f.kernel},
                            {"host_cpus", f.host_cpus},
                            {"host_memory", f.host_memory}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RankFacts from_text(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  RankFacts f;
  json.at("rank").get_to(f.rank);
  json.at("host").get_to(f.host);
  json.at("gpus").get_to(f.gpus);
  json.at("cpus").get_to(f.cpus);
  json.at("memory").get_to(f.memory);
  json.at("nics").get_to(f.nics);
  json.at("placed").get_to(f.placed);
  json.at("threads").get_to(f.threads);
  json.at("peak_flops").get_to(f.peak_flops);
  json.at("processor").get_to(f.processor);
  json.at("kernel").get_to(f.kernel);
  json.at("host_cpus").get_to(f.host_cpus);
  json.at("host_memory").get_to(f.host_memory);
  return f;
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
  const std::string text = as_text(mine);
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
    facts.push_back(from_text(std::string(all.begin() + static_cast<std::ptrdiff_t>(at),
                                          all.begin() + static_cast<std::ptrdiff_t>(at + count))));
    at += count;
  }
  return facts;
}

}  // namespace muster
