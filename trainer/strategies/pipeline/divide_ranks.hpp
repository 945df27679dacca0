// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace muster::pipeline {

/// Divides all ranks into pipelines of `length` ranks each, listed by their places. As many pipelines as
/// possible have all ranks on one host. The other ones take the ranks that are left, host by host, so that
/// each has the ranks of a host at consecutive places. Rank 0 is the first rank of the first pipeline.
/// hosts[r]: the number of rank r's host, from 0 in the order of ranks; `length` divides their count. Pure.
std::vector<std::vector<int>> divide_ranks(const std::vector<int>& hosts, int length);

}  // namespace muster::pipeline
