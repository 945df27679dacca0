// SPDX-License-Identifier: Apache-2.0
#include "transport/close_in_children.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>
#include <vector>

namespace muster::control {
namespace {

struct OpenSocket {
  int descriptor = -1;
  ino_t inode = 0;
};

struct OpenSockets {
  std::mutex mutex;
  std::vector<OpenSocket> list;  // also some that are closed already
};

// Never destroyed: a process may fork while it ends.
OpenSockets& open_sockets() {
  static auto* const sockets = new OpenSockets;
  return *sockets;
}

// 0 when it is no socket. Each socket of a process has another number.
ino_t socket_inode(int descriptor) {
  struct stat found {};
  return ::fstat(descriptor, &found) == 0 && S_ISSOCK(found.st_mode) ? found.st_ino : 0;
}

// The program may have another file under the number of a closed socket.
bool is_open(const OpenSocket& socket) { return socket_inode(socket.descriptor) == socket.inode; }

// In the child of a process with threads, so only async-signal-safe calls (signal-safety(7)). The number
// stays in use: objects that the child has a copy of may close it.
void close_all() {
  auto& sockets = open_sockets();
  int const nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const auto& socket : sockets.list)
    if (nothing >= 0 && is_open(socket)) ::dup3(nothing, socket.descriptor, O_CLOEXEC);
  if (nothing >= 0) ::close(nothing);
  sockets.list.clear();
  sockets.mutex.unlock();
}

}  // namespace

void close_in_children(int socket) {
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
  static int const registered =
      ::pthread_atfork([] { open_sockets().mutex.lock(); }, [] { open_sockets().mutex.unlock(); }, close_all);
  (void)registered;
  auto& sockets = open_sockets();
  std::lock_guard const lock(sockets.mutex);
  std::erase_if(sockets.list, [](const OpenSocket& one) { return !is_open(one); });
  sockets.list.push_back({socket, socket_inode(socket)});
}

}  // namespace muster::control
