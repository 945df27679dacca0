// SPDX-License-Identifier: Apache-2.0
// Open MPI's TCP transport takes every interface that is up, also one that leads nowhere, and matches
// addresses by subnet: with a bridge docker0 of the same address on all nodes no connection comes up.
// btl_tcp_if_include names the interfaces to take. Open MPI refuses it beside btl_tcp_if_exclude, wherever
// the two are set.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace muster::open_mpi {

/// The variable by which a process's environment sets btl_tcp_if_include.
inline constexpr const char* tcp_interface_variable = "OMPI_MCA_btl_tcp_if_include";

/// The value of a variable of the process that will call MPI_Init; nullopt if it is not set.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

struct TcpInterfaceAdvice {
  bool name_it = false;  ///< Open MPI needs the name of this interface
  /// Where Open MPI's interfaces have been chosen already, in words, though without that it would be: by
  /// btl_tcp_if_exclude in the environment, or by either of the two in a parameter file, the user's or that
  /// of the Open MPI on PATH. Empty: nowhere.
  std::string chosen;
};

/// An interface that reaches the other nodes is to be named where another one with IPv4 is up, or where a
/// parameter file names loopback alone, as Debian testing's package does: between nodes that is no choice.
/// An interface with IPv6 alone is not named, since many builds of Open MPI have no IPv6.
/// Reads regular files of up to 64 KiB; others count as empty.
TcpInterfaceAdvice advise_tcp_interface(const std::string& interface, const Lookup& lookup);

}  // namespace muster::open_mpi
