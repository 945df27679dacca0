// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "control_plane/control_plane.hpp"

namespace muster {

/// Job::on_rank_0(). `plane` is null in a world of one.
void run_on_rank_0(control::ControlPlane* plane, int rank, int ranks, const std::string& name,
                   const std::function<void()>& section, std::chrono::milliseconds deadline);

}  // namespace muster
