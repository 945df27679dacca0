// SPDX-License-Identifier: Apache-2.0
#include "c/call.hpp"

using muster::c::call;
using muster::c::required;
using std::chrono::milliseconds;

int muster_on_rank_lost(muster_job* job, muster_save save, void* context, int64_t deadline_ms) {
  return call([&] {
    auto& its = required(job, "muster_on_rank_lost", "job").job;
    (void)required(save, "muster_on_rank_lost", "function");
    its.on_rank_lost(
        [save, context](const muster::RankLoss& loss) {
          muster_loss const told{sizeof told, loss.ranks.data(), loss.ranks.size(), loss.what.c_str()};
          muster::c::call_back(save, &told, context);
        },
        milliseconds(deadline_ms));
  });
}

int muster_shrink(muster_job* job, int64_t deadline_ms) {
  return call([&] { required(job, "muster_shrink", "job").job.shrink(milliseconds(deadline_ms)); });
}
