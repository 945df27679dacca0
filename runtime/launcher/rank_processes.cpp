// SPDX-License-Identifier: Apache-2.0
#include "launcher/rank_processes.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "deadline.hpp"
#include "proc_file.hpp"
#include "text/parse_number.hpp"

namespace muster::bootstrap {
namespace {

// Reading /proc/PID/environ blocks while that process holds mmap_lock (for example in a page fault on a hung
// NFS file).
constexpr std::chrono::milliseconds read_timeout{300};
constexpr int max_unreadable = 3;

// The variables that are equal in all processes of a job, set or not, and the one with the rank.
struct RankMarker {
  std::vector<std::string> job;
  std::string rank;
};

std::optional<RankMarker> find_marker(const GetEnv& get_env, const std::string& method) {
  if (method == "slurm")
    return RankMarker{{"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"}, "SLURM_PROCID"};
  if (method == "pmix") return RankMarker{{"PMIX_NAMESPACE"}, "PMIX_RANK"};
  if (auto const names = find_rank_environment(get_env); names && method == "address")
    return RankMarker{{names->host, names->port, "TORCHELASTIC_RUN_ID"}, names->rank};
  return std::nullopt;
}

// The variable's value in "A=1\0B=2\0"; empty when it is not set.
std::string find_value(const std::string& environment, const std::string& name) {
  auto const wanted = name + "=";
  for (std::size_t at = 0; at < environment.size();) {
    auto const end = std::min(environment.find('\0', at), environment.size());
    if (environment.compare(at, wanted.size(), wanted) == 0)
      return environment.substr(at + wanted.size(), end - at - wanted.size());
    at = end + 1;
  }
  return "";
}

bool is_own(const std::filesystem::path& process) {
  struct stat info {};
  return ::stat(process.c_str(), &info) == 0 && info.st_uid == ::geteuid();
}

std::string read_name(const std::filesystem::path& process) {
  auto name = read_proc_file(process / "comm");
  while (!name.empty() && static_cast<unsigned char>(name.back()) < 0x20) name.pop_back();
  return name;
}

}  // namespace

std::map<int, RankProcess> find_rank_processes(const GetEnv& get_env, const std::string& method,
                                               const std::string& proc) {
  std::map<int, RankProcess> found;
  auto const marker = find_marker(get_env, method);
  if (!marker || get_env(marker->job.front()).empty()) return found;
  int unreadable_count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at(proc, error), end; !error && at != end; at.increment(error)) {
    auto const pid = parse_number<long>(at->path().filename().string());
    if (!pid || !is_own(at->path())) continue;
    auto const environment = read_bounded(
        [file = (at->path() / "environ").string()] { return read_proc_file(file); }, Deadline(read_timeout));
    if (!environment) {
      found.try_emplace(unreadable, RankProcess{*pid, read_name(at->path())});
      if (++unreadable_count == max_unreadable) break;
      continue;
    }
    bool const ours = std::all_of(marker->job.begin(), marker->job.end(), [&](const std::string& name) {
      return find_value(*environment, name) == get_env(name);
    });
    auto const rank = ours ? parse_number<long>(find_value(*environment, marker->rank)) : std::nullopt;
    if (!rank || *rank < 0) continue;
    auto& process = found[static_cast<int>(*rank)];
    if (process.pid != 0 && process.pid < *pid) continue;
    process = {*pid, read_name(at->path())};
  }
  return found;
}

}  // namespace muster::bootstrap
