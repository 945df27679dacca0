// SPDX-License-Identifier: Apache-2.0
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "file/descriptor.hpp"
#include "placement/environment/socket_interface.hpp"

namespace muster::placement {

namespace {

/// Shortens the resolver's timeout during its lifetime, for the calling thread: _res is thread-local.
class ShortResolverTimeout {
 public:
  ShortResolverTimeout() {
    if ((_res.options & RES_INIT) == 0 && res_ninit(&_res) != 0) return;
    seconds_ = _res.retrans;
    attempts_ = _res.retry;
    servers_ = _res.nscount;
    _res.retrans = 1;
    _res.retry = 1;
    _res.nscount = std::min(_res.nscount, 1);
    set_ = true;
  }
  ~ShortResolverTimeout() {
    if (!set_) return;
    _res.retrans = seconds_;
    _res.retry = attempts_;
    _res.nscount = servers_;
  }
  ShortResolverTimeout(const ShortResolverTimeout&) = delete;
  ShortResolverTimeout& operator=(const ShortResolverTimeout&) = delete;

 private:
  bool set_ = false;
  int seconds_ = 0, attempts_ = 0, servers_ = 0;
};

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& host) {
  const ShortResolverTimeout short_timeout;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  // Any port will do because nothing is sent; 9 is the discard port.
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) found = nullptr;
  return {found, &freeaddrinfo};
}

/// Sets `own` to the address from which this node would send; false: no route.
bool local_address_for(const addrinfo& peer, sockaddr_storage& own) {
  const Descriptor probe(socket(peer.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  socklen_t length = sizeof own;
  return probe.valid() && connect(probe.number(), peer.ai_addr, peer.ai_addrlen) == 0 &&
         getsockname(probe.number(), reinterpret_cast<sockaddr*>(&own), &length) == 0;
}

bool same_address(const sockaddr& one, const sockaddr& other) {
  if (one.sa_family != other.sa_family) return false;
  if (one.sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(one).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(other).sin_addr.s_addr;
  if (one.sa_family != AF_INET6) return false;
  const auto& a = reinterpret_cast<const sockaddr_in6&>(one);
  const auto& b = reinterpret_cast<const sockaddr_in6&>(other);
  return std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof a.sin6_addr) == 0 &&
         a.sin6_scope_id == b.sin6_scope_id;
}

/// The name of the interface with this address; empty: none, or only loopback.
std::string interface_with_address(const sockaddr_storage& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    if (!same_address(*one->ifa_addr, reinterpret_cast<const sockaddr&>(address))) continue;
    const std::string name = one->ifa_name;
    return name.substr(0, name.find(':'));  // a label such as eth0:1 is an address, not an interface
  }
  return {};
}

}  // namespace

std::string route_interface(const std::string& host) {
  const Addresses peers = resolve(host);
  for (const addrinfo* peer = peers.get(); peer != nullptr; peer = peer->ai_next) {
    sockaddr_storage own{};
    if (!local_address_for(*peer, own)) continue;
    if (std::string name = interface_with_address(own); !name.empty()) return name;
  }
  return {};
}

}  // namespace muster::placement
