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

/// Whether Open MPI has a choice that can go wrong: this interface has an IPv4 address, and so has another
/// one that is up and is not loopback. An interface with IPv6 alone is not named, since many builds of Open
/// MPI have no IPv6.
bool has_rivals(const std::string& interface);

/// The place where Open MPI's interfaces have been chosen already, in words: btl_tcp_if_exclude in the
/// environment, or either of the two in a parameter file, the user's or that of the Open MPI on PATH. Empty:
/// none. Reads regular files of up to 64 KiB; others count as empty.
std::string tcp_interface_chosen(const Lookup& lookup);

}  // namespace muster::open_mpi
