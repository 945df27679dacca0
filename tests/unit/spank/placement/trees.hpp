// SPDX-License-Identifier: Apache-2.0
// Synthetic /sys and /proc trees, and the machine that a step reads from one.
#pragma once

#include <string>

#include "placement/topology/node.hpp"
#include "temporary_folder.hpp"

namespace muster::placement::test {

/// Two packages with two cores of two threads each, one NUMA domain per package.
void write_cpus(const TemporaryFolder& tree);
/// A PCI device below the host bridge `host`, at the end of `path` ("" or "0000:00:01.0/").
void write_device(const TemporaryFolder& tree, const std::string& host, const std::string& path,
                  const std::string& address, const std::string& domain);
/// The NVIDIA driver's /proc files of a GPU.
void write_gpu(const TemporaryFolder& tree, const std::string& address, const std::string& uuid, int minor,
               const std::string& excluded = "No");
/// An RDMA device with one port.
void write_nic(const TemporaryFolder& tree, const std::string& name, const std::string& address,
               const std::string& layer, const std::string& state, const std::string& rate);
/// A Grace machine as its kernel presents it.
struct Grace {
  int processors = 1;
  int gpus_per_processor = 1;
  bool gpus_on_own_memory = false;  ///< numa_node is the GPU's own memory and not the processor's
  bool distances = true;            ///< false: all 20, as without a firmware table
};
/// Processors of 72 cores. Each GPU's memory is a NUMA domain, next to seven empty ones for MIG instances.
void write_grace(const TemporaryFolder& tree, const Grace& grace);

/// A whole machine: two GPUs and one that the driver excludes, an InfiniBand port and an Ethernet port.
void write_machine(const TemporaryFolder& tree);

/// The machine below root with the locality of an NCCL file, as the plugin reads it with topology=FILE.
Node read_with_locality(const std::string& root, const std::string& file);

}  // namespace muster::placement::test
