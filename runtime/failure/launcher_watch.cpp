// SPDX-License-Identifier: Apache-2.0
#include "failure/launcher_watch.hpp"

#include <unistd.h>

#include "transport/endpoint.hpp"

namespace muster::control {

void LauncherWatch::start(ProcessHandle launcher, std::function<void()> on_exit) {
  launcher_ = std::move(launcher);
  int const copy = ::dup(launcher_.descriptor());
  if (copy < 0) return;
  close_on_exec(copy);
  exit_.assign(copy);
  exit_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [on_exit = std::move(on_exit)](const asio::error_code& error) {
                     if (!error) on_exit();
                   });
}

void LauncherWatch::stop() {
  asio::error_code ignored;
  exit_.close(ignored);
}

}  // namespace muster::control
