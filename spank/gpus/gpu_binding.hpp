// SPDX-License-Identifier: Apache-2.0
// Which GPUs --gpu-bind leaves to each task of a node, computed before the tasks start. Pure.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace muster::spank {

/// The GPUs of each of a node's tasks, as indices in the step's list of GPUs on this node, which is not
/// empty. nullopt for a binding that names no GPUs, such as closest, and for one that cannot be parsed.
/// binding: "map_gpu:0*2,1", "mask_gpu:0x3,0xc" or "single:2"; --tres-bind has "map" and "mask". Slurm
/// repeats a list for further tasks, and single:N gives the first N tasks the first GPU. gpu_numbers: the
/// numbers of the step's GPUs in map_gpu and mask_gpu, in the order of the list: from 0, or the N of
/// /dev/nvidiaN if Slurm hides no devices.
std::optional<std::vector<std::vector<int>>> parse_gpu_binding(std::string_view binding, int tasks,
                                                               const std::vector<int>& gpu_numbers);

}  // namespace muster::spank
