// SPDX-License-Identifier: Apache-2.0
// The positions of a node's parts in its picture. Pure.
#pragma once

#include <string>
#include <vector>

#include "placement/topology/node.hpp"
#include "svg/svg.hpp"

namespace muster::placement {

/// Sizes in pixels.
struct SvgMetrics {
  static constexpr double margin = 28;
  static constexpr double gap = 14;       ///< between boxes, and from a box's edge to its content
  static constexpr double small_gap = 6;  ///< between devices, and between cores
  static constexpr double thread_width = 30, thread_height = 21;
  static constexpr double title_height = 22;
  static constexpr double memory_height = 20;
  static constexpr double device_height = 36;
  static constexpr double distance_height = 16;  ///< below a GPU, for its distance
  static constexpr double lane_height = 62;      ///< between GPUs and NICs, for their links
  static constexpr double chip_width = 178;
};

/// One NUMA domain with its cores and devices; or the devices that belong to no known domain.
struct DomainView {
  const NumaDomain* domain = nullptr;  ///< nullptr: no such domain
  int package = -1;                    ///< -1: no cores
  std::vector<const Core*> cores;
  std::vector<const Gpu*> gpus;
  std::vector<const Nic*> nics;
  int columns = 1;  ///< cores side by side
  std::size_t row = 0;
  Box box;
};

/// The heights that all domains of a row share.
struct DomainRow {
  double cores_y = 0, gpus_y = 0, lane_y = 0, nics_y = 0;
};

struct PackageView {
  int package = 0;
  Box box;
};

struct SvgLayout {
  std::vector<DomainView> domains;
  std::vector<DomainRow> rows;
  std::vector<PackageView> packages;
  std::vector<const NumaDomain*> memory_only;  ///< domains without cores and devices
  std::vector<Box> memory_only_boxes;
  double gpu_width = 0, nic_width = 0;
  int threads = 1;  ///< of the core with the most
  double right = 0, bottom = 0;

  Box core_box(const DomainView& view, std::size_t core) const;
  Box thread_box(const DomainView& view, std::size_t core, std::size_t thread) const;
  Box gpu_box(const DomainView& view, std::size_t gpu) const;
  Box nic_box(const DomainView& view, std::size_t nic) const;
};

/// Computes the layout, below `top`. The node must outlive it.
SvgLayout lay_out(const Node& node, double top);

}  // namespace muster::placement
