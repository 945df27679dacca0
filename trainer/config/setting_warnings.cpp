// SPDX-License-Identifier: Apache-2.0
#include "config/setting_warnings.hpp"

#include <fmt/format.h>

#include "optimizer/schedule.hpp"
#include "text/plural.hpp"

namespace muster {

std::vector<std::string> setting_warnings(const Options& o, int ranks, std::uint64_t samples_per_epoch) {
  std::vector<std::string> warnings;
  if (o.warmup > o.steps) {
    const Schedule schedule{o.learning_rate, o.min_learning_rate, o.warmup, o.steps};
    warnings.push_back(
        fmt::format("--warmup {} is longer than --steps {}: the learning rate reaches only {:.3g}", o.warmup,
                    o.steps, schedule.at(o.steps - 1)));
  }
  if (o.shard_optimizer && ranks == 1) warnings.emplace_back("--shard-optimizer has no effect on 1 rank");
  const int chunks = (o.batch - 1) / o.chunk + 1;
  if (o.deterministic && chunks < ranks) {
    warnings.push_back(
        fmt::format("--batch {} in chunks of --chunk {} is {}: {} of {} ranks have nothing to do", o.batch,
                    o.chunk, plural(chunks, "chunk"), ranks - chunks, ranks));
  }
  if (static_cast<std::uint64_t>(o.batch) > samples_per_epoch) {
    warnings.push_back(
        fmt::format("--batch {} is more than all {} to train on: some are in a batch several times", o.batch,
                    plural(static_cast<std::int64_t>(samples_per_epoch), "sample")));
  }
  return warnings;
}

}  // namespace muster
