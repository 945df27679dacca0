// SPDX-License-Identifier: Apache-2.0
#include "communicator/mpi/mpi_interface.hpp"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "open_mpi/tcp_interface.hpp"

namespace muster::detail {
namespace {

bool has_address(const sockaddr& address, const std::string& numeric) {
  if (address.sa_family != AF_INET && address.sa_family != AF_INET6) return false;
  std::array<char, NI_MAXHOST> text{};
  socklen_t const length = address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  return getnameinfo(&address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0 &&
         numeric == text.data();
}

std::string find_interface(const std::string& numeric) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> const owner(all, &freeifaddrs);
  for (auto const* entry = all; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || !has_address(*entry->ifa_addr, numeric)) continue;
    std::string const name = entry->ifa_name;
    return name.substr(0, name.find(':'));  // a label such as eth0:1 is an address, not an interface
  }
  return {};
}

}  // namespace

std::string choose_tcp_interface(const std::vector<Hello>& roster, int rank) {
  auto const& own = roster[static_cast<std::size_t>(rank)];
  bool const several =
      std::any_of(roster.begin(), roster.end(), [&](const Hello& other) { return other.host != own.host; });
  if (!several || std::getenv(open_mpi::tcp_interface_variable) != nullptr) return {};
  auto name = find_interface(own.address);
  if (name.empty()) return {};
  auto const lookup = [](const std::string& variable) -> std::optional<std::string> {
    auto const* value = std::getenv(variable.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  if (!open_mpi::advise_tcp_interface(name, lookup).should_set) return {};
  setenv(open_mpi::tcp_interface_variable, name.c_str(), 0);
  return name;
}

}  // namespace muster::detail
