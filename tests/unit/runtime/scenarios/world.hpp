// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "muster/muster.hpp"

/// The job of this test process: joined at the first call, left at the end of the run.
muster::Job& job();
/// All ranks, on host memory; with TEST_ON_GPUS set on GPU memory, which on test doubles of CUDA and NCCL is
/// host memory, whose operations have ended when they return.
muster::Communicator tested_world();
