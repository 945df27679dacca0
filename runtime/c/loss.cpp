// SPDX-License-Identifier: Apache-2.0
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

int muster_shrink(muster_job* job, int64_t deadline_ms) {
  return call([&] { require_not_null(job, "muster_shrink", "job").job.shrink(milliseconds(deadline_ms)); });
}
