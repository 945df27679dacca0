// SPDX-License-Identifier: Apache-2.0
// Which GPUs --gpu-bind leaves to each task of a node, known before the tasks are there. Pure.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace muster::spank {

/// The GPUs of each of a node's tasks, as places in the step's list of GPUs on this node, which is not empty.
/// Nothing for a binding that says no GPUs, such as closest, and for one that cannot be read.
/// binding: "map_gpu:0*2,1", "mask_gpu:0x3,0xc" or "single:2"; "map" and "mask" of --tres-bind. Slurm begins
/// a list again for further tasks, and single:N gives the first N tasks the first GPU. names: how map_gpu and
/// mask_gpu count the step's GPUs, in the order of the list: from 0, or the N of /dev/nvidiaN where Slurm
/// hides no devices.
std::optional<std::vector<std::vector<int>>> bound_gpus(std::string_view binding, int tasks,
                                                        const std::vector<int>& names);

}  // namespace muster::spank
