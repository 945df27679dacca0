// SPDX-License-Identifier: Apache-2.0
// Machines for the tests: built in code, generated, or real ones from the folder MUSTER_SHARED.
#pragma once

#include <filesystem>
#include <optional>
#include <random>
#include <string>

#include "placement/place/place.hpp"
#include "placement/topology/node.hpp"

namespace muster::placement::test {

/// A regular machine; CPUs are numbered as Linux does: all first threads, then all second threads.
struct Shape {
  int packages = 1;
  int domains_per_package = 1;
  int cores_per_domain = 4;
  int threads = 1;
};
Node make_node(const Shape& shape);

/// Adds a GPU at PCI bus `bus` behind a switch of its own on a host bridge of the domain.
void add_gpu(Node& node, int domain, int bus);
/// Adds a NIC that is up; behind the switch of the GPU at bus gpu_bus, or with gpu_bus < 0 behind its own.
void add_nic(Node& node, const std::string& name, int domain, int bus, int gpu_bus = -1,
             NicKind kind = NicKind::infiniband);

/// The addresses of a node's GPUs, for a request.
std::vector<PciAddress> addresses(const Node& node);

/// A machine with random features: uneven domains, memory-only domains, random distances, devices of unknown
/// locality.
Node random_node(std::mt19937& random);
/// A random request; the machine has enough GPUs for it.
Request random_request(const Node& node, std::mt19937& random);

/// The folder of real topology files; nullopt, and a line on stderr, if it does not exist.
std::optional<std::filesystem::path> real_topologies();

}  // namespace muster::placement::test
