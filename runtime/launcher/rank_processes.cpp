// SPDX-License-Identifier: Apache-2.0
#include "launcher/rank_processes.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "deadline.hpp"
#include "proc_file.hpp"

namespace muster::bootstrap {
namespace {

// While a thread of a process holds its memory map, as in a fault on a file of a server that does not answer,
// who reads the process's environment is held, too.
constexpr std::chrono::milliseconds time_to_read{300};
constexpr int most_unreadable = 3;

// Which variables must be equal in a process of this job, set or not, and which one has its rank.
struct RankMarker {
  std::vector<const char*> job;
  const char* rank;
};

std::optional<RankMarker> mark_of(const std::string& method) {
  if (method == "slurm")
    return RankMarker{{"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"}, "SLURM_PROCID"};
  if (method == "pmix") return RankMarker{{"PMIX_NAMESPACE"}, "PMIX_RANK"};
  if (method == "address") return RankMarker{{"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"}, "RANK"};
  return std::nullopt;
}

// The value in "A=1\0B=2\0"; empty without it.
std::string value_in(const std::string& environment, const std::string& name) {
  auto const wanted = name + "=";
  for (std::size_t at = 0; at < environment.size();) {
    auto const end = std::min(environment.find('\0', at), environment.size());
    if (environment.compare(at, wanted.size(), wanted) == 0)
      return environment.substr(at + wanted.size(), end - at - wanted.size());
    at = end + 1;
  }
  return "";
}

std::optional<long> number(const std::string& text) {
  long value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_own(const std::filesystem::path& process) {
  struct stat info {};
  return ::stat(process.c_str(), &info) == 0 && info.st_uid == ::geteuid();
}

std::string name_in(const std::filesystem::path& process) {
  auto name = read_proc_file(process / "comm");
  while (!name.empty() && static_cast<unsigned char>(name.back()) < 0x20) name.pop_back();
  return name;
}

}  // namespace

std::map<int, RankProcess> find_rank_processes(const GetEnv& variable, const std::string& method,
                                              const std::string& proc) {
  std::map<int, RankProcess> found;
  auto const mark = mark_of(method);
  if (!mark || variable(mark->job.front()).empty()) return found;
  int held = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at(proc, error), end; !error && at != end; at.increment(error)) {
    auto const pid = number(at->path().filename().string());
    if (!pid || !is_own(at->path())) continue;
    auto const environment = read_bounded(
        [file = (at->path() / "environ").string()] { return read_proc_file(file); }, Deadline(time_to_read));
    if (!environment) {
      found.try_emplace(unreadable, RankProcess{*pid, name_in(at->path())});
      if (++held == most_unreadable) break;
      continue;
    }
    bool const ours = std::all_of(mark->job.begin(), mark->job.end(), [&](const char* name) {
      return value_in(*environment, name) == variable(name);
    });
    auto const rank = ours ? number(value_in(*environment, mark->rank)) : std::nullopt;
    if (!rank || *rank < 0) continue;
    auto& process = found[static_cast<int>(*rank)];
    if (process.pid != 0 && process.pid < *pid) continue;
    process = {*pid, name_in(at->path())};
  }
  return found;
}

}  // namespace muster::bootstrap
