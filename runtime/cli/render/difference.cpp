// SPDX-License-Identifier: Apache-2.0
#include "render/difference.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "file/descriptor.hpp"
#include "file/write_all.hpp"
#include "render/settings.hpp"

namespace muster::render {

namespace {

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

/// A file without a name that holds the text, at its begin. (A pipe could be full.)
Descriptor nameless_file(const std::string& text) {
  Descriptor file(memfd_create("rendered", MFD_CLOEXEC));
  if (!file.valid() || !write_all(file.number(), text) || lseek(file.number(), 0, SEEK_SET) != 0)
    fail(errno, "a file in memory");
  return file;
}

pid_t start_diff(const std::string& file, int input) {
  std::string words[] = {"diff", "-u", "--label", file, "--label", "rendered", "--", file, "-"};
  char* arguments[std::size(words) + 1] = {};
  for (std::size_t i = 0; i < std::size(words); ++i) arguments[i] = words[i].data();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  pid_t process = 0;
  const int error = posix_spawnp(&process, "diff", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail(error, "diff");
  return process;
}

}  // namespace

int print_difference(const std::string& file, const std::string& text) {
  if (access(file.c_str(), R_OK) != 0) throw DescriptionError(file + ": " + std::strerror(errno));
  // diff would wait for a pipe's writer.
  if (!std::filesystem::is_regular_file(file)) throw DescriptionError(file + ": it is not a regular file");
  const auto input = nameless_file(text);
  const pid_t process = start_diff(file, input.number());
  int status = 0;
  while (waitpid(process, &status, 0) < 0)
    if (errno != EINTR) fail(errno, "diff");
  if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
    throw DescriptionError(file + ": diff could not compare it");
  return WEXITSTATUS(status);
}

}  // namespace muster::render
