// SPDX-License-Identifier: Apache-2.0
// muster.h compiles as C++, also together with muster.hpp.
#include "muster/muster.h"
#include "muster/muster.hpp"

static_assert(MUSTER_ABI_VERSION > 0 && sizeof(muster::Job) > 0);

int joined_from_cpp() {
  muster_job* job = nullptr;
  return muster_join(nullptr, &job);
}
