// SPDX-License-Identifier: Apache-2.0
// All headers that a program linked with libmuster needs.
#pragma once

#include "muster/export.hpp"

#if __cplusplus >= 202002L  // otherwise the line in export.hpp would be the first of many
#include "muster/average.hpp"
#include "muster/communicator.hpp"
#include "muster/error.hpp"
#include "muster/job.hpp"
#include "muster/metrics.hpp"
#include "muster/parameter_server.hpp"
#include "muster/philox.hpp"
#include "muster/reducer.hpp"
#include "muster/sampler.hpp"
#include "muster/span.hpp"
#include "muster/state.hpp"
#include "muster/store.hpp"
#include "muster/timings.hpp"
#include "muster/types.hpp"
#include "muster/version.hpp"
#include "muster/work.hpp"
#endif
