// SPDX-License-Identifier: Apache-2.0
#include "transport/local_listener.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

#include "muster/error.hpp"
#include "transport/close_in_children.hpp"

namespace muster::control {
namespace {

constexpr socklen_t name_offset = offsetof(sockaddr_un, sun_path) + 1;  // after the first, null byte

}  // namespace

LocalListener::LocalListener() : descriptor_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  if (descriptor_ < 0 || ::bind(descriptor_, generic, sizeof address.sun_family) != 0 ||
      ::listen(descriptor_, SOMAXCONN) != 0 || ::getsockname(descriptor_, generic, &length) != 0) {
    auto const why = std::generic_category().message(errno);
    if (descriptor_ >= 0) ::close(descriptor_);
    throw Error(ErrorCode::system,
                fmt::format("cannot listen on a UNIX socket for the ranks of this host: {}", why));
  }
  close_in_children(descriptor_);
  name_.assign(address.sun_path + 1, length - name_offset);
}

LocalListener::~LocalListener() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int LocalListener::release() noexcept { return std::exchange(descriptor_, -1); }

}  // namespace muster::control
