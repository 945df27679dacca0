// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>

#include "c/call.hpp"

using muster::c::call;
using muster::c::require_not_null;
using std::chrono::milliseconds;

int muster_on_rank_lost(muster_job* job, muster_save save, void* context, int64_t deadline_ms) {
  return call([&] {
    auto& its = require_not_null(job, "muster_on_rank_lost", "job").job;
    (void)require_not_null(save, "muster_on_rank_lost", "function");
    its.on_rank_lost(
        [save, context](const muster::RankLoss& loss) {
          muster_loss const argument{sizeof argument, loss.ranks.data(), loss.ranks.size(),
                                     loss.what.c_str()};
          muster::c::call_back(save, &argument, context);
        },
        milliseconds(deadline_ms));
  });
}

int muster_survive_loss_of(muster_job* job, const int* ranks, size_t count, int64_t deadline_ms) {
  return call([&] {
    auto& its = require_not_null(job, "muster_survive_loss_of", "job").job;
    if (count > 0) (void)require_not_null(ranks, "muster_survive_loss_of", "list of ranks");
    its.survive_loss_of(std::span(ranks, count), milliseconds(deadline_ms));
  });
}

int muster_lost_ranks(const muster_job* job, int* ranks, size_t capacity, size_t* count) {
  return call([&] {
    auto const lost = require_not_null(job, "muster_lost_ranks", "job").job.lost_ranks();
    if (capacity > 0) (void)require_not_null(ranks, "muster_lost_ranks", "list of ranks");
    std::copy_n(lost.begin(), std::min(capacity, lost.size()), ranks);
    require_not_null(count, "muster_lost_ranks", "place for the number of ranks") = lost.size();
  });
}

int muster_shrink(muster_job* job, int64_t deadline_ms) {
  return call([&] { require_not_null(job, "muster_shrink", "job").job.shrink(milliseconds(deadline_ms)); });
}
