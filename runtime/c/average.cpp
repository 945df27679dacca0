// SPDX-License-Identifier: Apache-2.0
#include "muster/average.hpp"

#include <vector>

#include "c/call.hpp"

using muster::c::call;
using muster::c::require_not_null;

int muster_average_over_ranks(muster_communicator* host, muster_average* averages, size_t count) {
  return call([&] {
    auto& its = require_not_null(host, "muster_average_over_ranks", "communicator").communicator;
    if (count > 0) (void)require_not_null(averages, "muster_average_over_ranks", "list of averages");
    std::vector<muster::Average> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = {averages[i].sum, averages[i].weight};
    muster::average_over_ranks(its, all);
    for (std::size_t i = 0; i < count; ++i) averages[i] = {all[i].sum, all[i].weight};
  });
}

int muster_weighted_average(muster_communicator* host, double value, double weight, double* mean) {
  return call([&] {
    auto& place = require_not_null(mean, "muster_weighted_average", "place for the mean");
    place = muster::weighted_average(
        require_not_null(host, "muster_weighted_average", "communicator").communicator, value, weight);
  });
}
