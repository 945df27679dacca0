// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "muster/muster.hpp"

/// The job of this test process: joined at the first call, left at the end of the run.
muster::Job& job();
