// SPDX-License-Identifier: Apache-2.0
#include "open_mpi/tcp_interface.hpp"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

namespace muster::open_mpi {

namespace {

constexpr std::string_view white = " \t\r";

std::string read_file(const std::string& path) {
  constexpr std::size_t longest = 64 * 1024;
  // Not blocking, since a pipe in its place would wait for ever.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return {};
  struct stat status {};
  std::string text;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= 0 &&
      static_cast<std::size_t>(status.st_size) <= longest) {
    text.resize(static_cast<std::size_t>(status.st_size));
    const ssize_t got = read(file, text.data(), text.size());
    text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  }
  close(file);
  return text;
}

// "btl_tcp_if_include" or "btl_tcp_if_exclude" where a line of a parameter file, `name = value`, sets it.
std::string setting_in(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    line.remove_prefix(std::min(line.find_first_not_of(white), line.size()));
    const std::string_view name = line.substr(0, line.find_first_of(" \t\r="));
    if ((name == "btl_tcp_if_include" || name == "btl_tcp_if_exclude") &&
        line.find('=') != std::string_view::npos)
      return std::string(name);
  }
  return {};
}

// The installation that a program built with the mpicc on PATH most likely uses: PREFIX of PREFIX/bin/mpirun.
std::string prefix_on_path(const std::string& path) {
  constexpr int most = 256;
  std::size_t start = 0;
  for (int folder = 0; folder < most && start < path.size(); ++folder) {
    const std::size_t end = std::min(path.find(':', start), path.size());
    const std::string name = path.substr(start, end - start);
    start = end + 1;
    if (!name.starts_with('/') || access((name + "/mpirun").c_str(), X_OK) != 0) continue;
    return name.substr(0, name.find_last_of('/', name.find_last_not_of('/')));
  }
  return {};
}

std::vector<std::string> parameter_files(const Lookup& lookup) {
  std::vector<std::string> files;
  if (const auto home = lookup("HOME"); home && !home->empty())
    files.push_back(*home + "/.openmpi/mca-params.conf");
  if (const auto prefix = lookup("OPAL_PREFIX"); prefix && !prefix->empty())
    files.push_back(*prefix + "/etc/openmpi-mca-params.conf");
  if (const auto prefix = prefix_on_path(lookup("PATH").value_or("")); !prefix.empty())
    files.push_back(prefix + "/etc/openmpi-mca-params.conf");
  files.push_back("/etc/openmpi/openmpi-mca-params.conf");         // Debian's
  files.push_back("/etc/openmpi-x86_64/openmpi-mca-params.conf");  // Fedora's and RHEL's
  return files;
}

}  // namespace

bool has_rivals(const std::string& interface) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  bool itself = false;
  bool others = false;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const std::string_view name = one->ifa_name;
    (name.substr(0, name.find(':')) == interface ? itself : others) = true;
  }
  return itself && others;
}

std::string tcp_interface_chosen(const Lookup& lookup) {
  for (const char* name : {"OMPI_MCA_btl_tcp_if_exclude", "OMPI_MCA_mca_base_param_files"})
    if (lookup(name)) return std::string(name) + " is set";
  for (const auto& file : parameter_files(lookup))
    if (const auto name = setting_in(read_file(file)); !name.empty())
      return file + " sets " + std::string(name);
  return {};
}

}  // namespace muster::open_mpi
