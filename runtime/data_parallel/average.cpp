// SPDX-License-Identifier: Apache-2.0
#include "muster/average.hpp"

#include <string_view>
#include <vector>

#include "muster/error.hpp"

namespace muster {

void average_over_ranks(Communicator& host, std::span<Average> averages) {
  if (std::string_view(host.backend()) == "nccl") {
    throw Error(
        ErrorCode::usage,
        "average_over_ranks: the numbers are in host memory and this communicator is on NCCL: use the "
        "job's host_world()");
  }
  std::vector<double> numbers;
  for (const auto& average : averages) numbers.insert(numbers.end(), {average.sum, average.weight});
  host.all_reduce(std::span<double>(numbers));
  for (std::size_t i = 0; i < averages.size(); ++i) averages[i] = {numbers[2 * i], numbers[2 * i + 1]};
}

double weighted_average(Communicator& host, double value, double weight) {
  Average average;
  average.add(value, weight);
  average_over_ranks(host, {&average, 1});
  return average.value();
}

}  // namespace muster
