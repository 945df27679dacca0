// SPDX-License-Identifier: Apache-2.0
#include "machine/rank_info.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "machine/gather_texts.hpp"

namespace muster {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankInfo, rank, host, gpus, cpus, memory, nics, placed, threads,
                                   peak_flops, processor, kernel, host_cpus, host_memory)

namespace {

std::string get_env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// x86 has a "model name" there, most other architectures have none.
std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

std::string to_text(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

RankInfo read_rank_info(const Hello& hello) {
  RankInfo f;
  f.rank = hello.rank;
  f.host = hello.host;
  f.cpus = hello.cpus;
  f.placed = !hello.plugin_version.empty();
  f.gpus = get_env("MUSTER_GPUS");
  f.memory = get_env("MUSTER_MEMORY");
  f.nics = get_env("MUSTER_NICS");
  f.processor = processor_name();
  utsname system{};
  if (::uname(&system) == 0) f.kernel = std::string(system.sysname) + " " + system.release;
  f.host_cpus = static_cast<int>(::sysconf(_SC_NPROCESSORS_CONF));
  f.host_memory = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  return f;
}

std::vector<RankInfo> share_rank_info(Communicator& world, const std::vector<RankInfo>& infos) {
  const auto texts = gather_texts(world, world.rank() == 0 ? to_text(infos) : "");
  return nlohmann::json::parse(texts.front()).get<std::vector<RankInfo>>();
}

std::vector<RankInfo> gather_rank_info(Communicator& world, const RankInfo& mine) {
  std::vector<RankInfo> infos;
  for (const std::string& info : gather_texts(world, to_text(mine)))
    infos.push_back(nlohmann::json::parse(info).get<RankInfo>());
  return infos;
}

}  // namespace muster
