// SPDX-License-Identifier: Apache-2.0
// Open MPI's TCP transport uses every interface that is up, even one without a route to other nodes, and
// matches addresses by subnet. With a bridge docker0 of the same address on all nodes, no connection
// succeeds. btl_tcp_if_include lists the interfaces to use. Open MPI refuses it together with
// btl_tcp_if_exclude, wherever the two are set.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace muster::open_mpi {

/// The environment variable for btl_tcp_if_include.
inline constexpr const char* tcp_interface_variable = "OMPI_MCA_btl_tcp_if_include";

/// The value of a variable of the process that will call MPI_Init; nullopt if it is not set.
using GetEnv = std::function<std::optional<std::string>(const std::string& name)>;

struct TcpInterfaceAdvice {
  bool should_set = false;  ///< set btl_tcp_if_include to this interface
  /// The existing setting that prevents should_set, for display: btl_tcp_if_exclude in the environment, or
  /// either parameter in a parameter file of the user or of the Open MPI on PATH. Empty: none.
  std::string existing_choice;
};

/// Decides whether Open MPI needs `interface`, which reaches the other nodes: if another interface with IPv4
/// is up, or if a parameter file allows only loopback, as Debian testing's package does, which cannot work
/// between nodes. Never advises an interface with IPv6 alone, because many builds of Open MPI have no IPv6.
/// Reads regular files of up to 64 KiB; others count as empty.
TcpInterfaceAdvice advise_tcp_interface(const std::string& interface, const GetEnv& get_env);

}  // namespace muster::open_mpi
