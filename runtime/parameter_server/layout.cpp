// SPDX-License-Identifier: Apache-2.0
#include "parameter_server/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace muster {

Share ParameterServer::slice_of(std::size_t size, const ParameterServerOptions& options, int server) {
  auto const alignment = std::max<std::size_t>(options.alignment, 1);
  auto const blocks = share_of((size + alignment - 1) / alignment, server, options.servers);
  return {std::min(blocks.begin * alignment, size), std::min(blocks.end * alignment, size)};
}

namespace parameter_server {
namespace {

constexpr std::uint64_t max_tasks = 1u << 20;

void require(bool fine, const std::string& text) {
  if (!fine) throw Error(ErrorCode::usage, "parameter server: " + text);
}

}  // namespace

Layout::Layout(std::size_t size, const ParameterServerOptions& options, int ranks)
    : size_(size), options_(options), ranks_(ranks) {
  require(ranks > 1, "the job has one rank: start two or more");
  require(options.servers > 0 && options.servers <= ranks,
          fmt::format("{} servers in a job of {} ranks: give 1 to {}", options.servers, ranks, ranks));
  require(size > 0, "there are no parameters");
  require(options.wire_type == DataType::float32 || options.wire_type == DataType::bfloat16,
          fmt::format("values are sent as float32 or bfloat16, not as {}", name_of(options.wire_type)));
  require(options.tasks_per_clock <= max_tasks,
          fmt::format("{} tasks a clock: give {} at most", options.tasks_per_clock, max_tasks));
  require(options.deals_tasks || tasks_per_clock() == workers().size(),
          fmt::format("{} tasks a clock for {} workers need deals_tasks", options.tasks_per_clock,
                      workers().size()));
}

std::vector<int> Layout::workers() const {
  std::vector<int> ranks(static_cast<std::size_t>(ranks_ - first_worker()));
  std::iota(ranks.begin(), ranks.end(), first_worker());
  return ranks;
}

std::uint64_t Layout::tasks_per_clock() const {
  return options_.tasks_per_clock > 0 ? options_.tasks_per_clock : workers().size();
}

std::uint64_t Layout::clocks_before(std::uint64_t clock) const {
  return options_.staleness && clock > *options_.staleness ? clock - *options_.staleness : 0;
}

}  // namespace parameter_server
}  // namespace muster
