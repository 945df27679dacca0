// SPDX-License-Identifier: Apache-2.0
#include "run/matmul_plans.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "files/hash.hpp"
#include "files/output_file.hpp"
#include "machine/gather_texts.hpp"

namespace muster {

void write_matmul_plans(const Options& options, compute::UpdateCompute<float>& compute, Communicator& world,
                        CollectiveErrors& errors) {
  constexpr std::uint64_t none = 0;
  compute::Autotuner* const tuner = compute.autotuner();
  const std::string plans = tuner != nullptr ? tuner->plans() : "";
  const std::vector<std::uint64_t> hashes =
      errors.gather(plans.empty() ? none : hash_bytes(plans.data(), plans.size()), none);
  if (std::all_of(hashes.begin(), hashes.end(), [](std::uint64_t hash) { return hash == none; })) return;
  const auto first_with = [&](std::uint64_t hash) {
    return std::find(hashes.begin(), hashes.end(), hash) - hashes.begin();
  };
  const auto self = hashes[static_cast<std::size_t>(world.rank())];
  const std::vector<std::string> texts = gather_texts(world, first_with(self) == world.rank() ? plans : "");
  errors.run_on_rank0([&] {
    auto all = nlohmann::ordered_json::array();
    for (std::size_t first = 0; first < texts.size(); ++first) {
      if (texts[first].empty()) continue;
      nlohmann::ordered_json group{{"ranks", nlohmann::ordered_json::array()}};
      for (std::size_t rank = first; rank < hashes.size(); ++rank) {
        if (hashes[rank] == hashes[first]) group["ranks"].push_back(rank);
      }
      group.update(nlohmann::ordered_json::parse(texts[first]));
      all.push_back(std::move(group));
    }
    OutputFile file(std::filesystem::path(options.output) / "matmul_plans.json");
    file.write(all.dump(1) + '\n');
    file.commit();
  });
}

}  // namespace muster
