// SPDX-License-Identifier: Apache-2.0
// Everything a program that links libmuster needs.
#pragma once

#include "muster/communicator.hpp"
#include "muster/error.hpp"
#include "muster/job.hpp"
#include "muster/metrics.hpp"
#include "muster/span.hpp"
#include "muster/timings.hpp"
#include "muster/types.hpp"
#include "muster/version.hpp"
