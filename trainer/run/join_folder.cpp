// SPDX-License-Identifier: Apache-2.0
#include "run/join_folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>

#include "file/atomic_file.hpp"
#include "file/regular_file.hpp"
#include "muster/error.hpp"
#include "report/format_bytes.hpp"
#include "report/run_status.hpp"
#include "text/plural.hpp"
#include "text/printable.hpp"
#include "text/split.hpp"

namespace muster {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds look_interval{1};
constexpr std::chrono::milliseconds write_interval{200};
// A step, a validation or a checkpoint of the run may take long.
constexpr std::chrono::minutes answer_time{15};
constexpr const char* request_suffix = ".request";
constexpr const char* answer_suffix = ".answer";
constexpr const char* refusal = "refused: ";

/// For this user alone, since an answer has a key.
void write_private_file(const std::filesystem::path& path, const std::string& text) {
  AtomicFile file(path.string(), path.string() + ".partial", {.mode = 0600});
  file.write(text);
  if (!file.commit()) {
    throw Error(ErrorCode::system, fmt::format("cannot write {}: {}", printable(path.string()),
                                               std::generic_category().message(file.error())));
  }
}

std::optional<std::string> read_file(const std::filesystem::path& path) {
  constexpr std::size_t longest = 64 << 10;
  const auto file = read_regular_file(path.string(), longest);
  return file ? std::optional(file->text) : std::nullopt;
}

std::string name_of_this_process() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return fmt::format("{}.{}", host, ::getpid());
}

struct Request {
  RunFingerprint run;
  std::string gpus;  ///< as in MUSTER_GPUS
  FreeMemory free;   ///< of the process's host
};

std::string encode(const Request& request) {
  return fmt::format("{} {} gpus={} {} {}\n", request.run.settings, request.run.data, request.gpus,
                     request.free.bytes, request.free.where);
}

Request decode(const std::string& text) {
  Request request;
  std::istringstream in(text);
  in >> request.run.settings >> request.run.data >> request.gpus >> request.free.bytes >> std::ws;
  request.gpus.erase(0, std::string_view("gpus=").size());
  std::getline(in, request.free.where);
  return request;
}

std::string describe_difference(const RunFingerprint& run, const RunFingerprint& other) {
  if (run == other) return "";
  return run.settings != other.settings ? "the run was started with other options"
                                        : "the run has other data: give all hosts the same files";
}

}  // namespace

JoinFolder::JoinFolder(const std::filesystem::path& output, const RunFingerprint& run, MemoryEstimate needed)
    : path_(output / "join"), run_(run), needed_(std::move(needed)) {}

bool JoinFolder::has_requests(const std::vector<Hello>& ranks) {
  if (const auto now = steady_clock::now(); waiting_.empty() && now >= next_look_) {
    const bool found_new = look(ranks);
    next_look_ = now + (found_new ? 2 * write_interval : look_interval);
  }
  return !waiting_.empty();
}

bool JoinFolder::look(const std::vector<Hello>& ranks) {
  waiting_.clear();
  bool found_new = false;
  std::map<std::string, std::filesystem::file_time_type> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() != request_suffix) continue;
    std::error_code vanished;
    const auto written = entry->last_write_time(vanished);
    if (vanished) continue;
    const std::string name = entry->path().stem().string();
    found[name] = written;
    const auto before = seen_.find(name);
    found_new = found_new || before == seen_.end();
    if (before == seen_.end() || before->second == written) continue;
    if (const auto request = read_file(entry->path())) consider(name, *request, ranks);
  }
  seen_ = std::move(found);
  return found_new;
}

void JoinFolder::consider(const std::string& name, const std::string& text, const std::vector<Hello>& ranks) {
  const Request request = decode(text);
  if (const std::string difference = describe_difference(run_, request.run); !difference.empty())
    return refuse(name, difference);
  const std::string host = name.substr(0, name.rfind('.'));
  const auto beside = std::count_if(waiting_.begin(), waiting_.end(),
                                    [&](const Waiting& other) { return other.host == host; });
  const std::string obstacle = describe_missing_memory(host, request.free, static_cast<int>(beside));
  if (!obstacle.empty()) return refuse(name, obstacle);
  const std::string gpu = choose_gpu(host, request.gpus, ranks);
  if (gpu.empty() && !request.gpus.empty() && !ranks.back().gpu_uuid.empty()) {
    return refuse(name,
                  fmt::format("each GPU of this process on {} ({}) is used by another rank, or promised to "
                              "another process that joins: start it with a free one",
                              printable(host), printable(request.gpus)));
  }
  waiting_.push_back({name, host, gpu});
}

std::string JoinFolder::describe_missing_memory(const std::string& host, const FreeMemory& free,
                                                int beside) const {
  const std::uint64_t needed = needed_(beside + 1);
  if (needed <= free.bytes) return "";
  return fmt::format(
      "{} on {} {} {} of memory, and {} is {}: start fewer there, or use a host with more memory",
      plural(beside + 1, "new rank"), printable(host), beside == 0 ? "needs" : "need", format_bytes(needed),
      format_bytes(free.bytes), printable(free.where));
}

std::string JoinFolder::choose_gpu(const std::string& host, const std::string& gpus,
                                   const std::vector<Hello>& ranks) const {
  for (const std::string_view gpu : split(gpus, ',')) {
    const bool is_used = std::any_of(ranks.begin(), ranks.end(),
                                     [&](const Hello& rank) { return rank.host == host && rank.gpu == gpu; });
    const bool is_promised = std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& other) {
      return other.host == host && other.gpu == gpu;
    });
    if (!is_used && !is_promised) return std::string(gpu);
  }
  return "";
}

void JoinFolder::refuse(const std::string& name, const std::string& why) const {
  try {
    write_private_file(path_ / (name + answer_suffix), refusal + why);
  } catch (const Error&) {
    // The process asks again.
  }
}

void JoinFolder::invite(const std::vector<std::string>& invitations) {
  for (std::size_t i = 0; i < waiting_.size(); ++i)
    write_private_file(path_ / (waiting_[i].name + answer_suffix),
                       waiting_[i].gpu + '\n' + invitations.at(i));
}

JoinAnswer request_invitation(const Options& options, const RunFingerprint& own, const std::string& gpus) {
  const std::filesystem::path folder = std::filesystem::path(options.output) / "join";
  const std::filesystem::path status = options.status.empty()
                                           ? std::filesystem::path(options.output) / "status.json"
                                           : std::filesystem::path(options.status);
  const std::string name = name_of_this_process();
  const auto request = folder / (name + request_suffix), answer = folder / (name + answer_suffix);
  std::error_code error;
  std::filesystem::remove(answer, error);  // of an earlier process
  const auto limit = steady_clock::now() + answer_time;
  while (is_running(status)) {
    std::filesystem::create_directory(folder, error);
    write_private_file(request, encode({own, gpus, free_memory()}));
    std::this_thread::sleep_for(write_interval);
    if (const auto text = read_file(answer)) {
      std::filesystem::remove(request, error);
      std::filesystem::remove(answer, error);
      const auto line = text->find('\n');
      if (!text->starts_with(refusal)) return {text->substr(line + 1), text->substr(0, line)};
      throw Error(ErrorCode::usage, fmt::format("--join: {}", text->substr(std::string(refusal).size())));
    }
    if (steady_clock::now() < limit) continue;
    std::filesystem::remove(request, error);
    throw Error(ErrorCode::deadline,
                fmt::format("--join: no rank of the run in {} has answered within {} minutes",
                            printable(options.output), answer_time.count()));
  }
  std::filesystem::remove(request, error);
  throw Error(ErrorCode::usage,
              fmt::format("--join: no run is under way in {}, as {} says: leave --join out to start one",
                          printable(options.output), printable(status.string())));
}

}  // namespace muster
