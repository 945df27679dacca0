// SPDX-License-Identifier: Apache-2.0
#include "open_mpi/tcp_interface.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "file/regular_file.hpp"

namespace muster::open_mpi {

namespace {

constexpr std::string_view white = " \t\r";

std::string read_file(const std::string& path) {
  constexpr std::size_t longest = 64 * 1024;
  auto file = read_regular_file(path, longest);
  return file ? std::move(file->text) : "";
}

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(white), text.size()));
  return text.substr(0, text.find_last_not_of(white) + 1);
}

struct Setting {
  std::string_view name;  // "btl_tcp_if_include" or "btl_tcp_if_exclude"; empty: neither is set
  bool loopback_alone = false;
};

// The first line of a parameter file, `name = value`, that sets one of the two.
Setting parse_setting(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = trimmed(line.substr(0, equals));
    if (name == "btl_tcp_if_exclude") return {name};
    if (name == "btl_tcp_if_include") return {name, trimmed(line.substr(equals + 1)) == "lo"};
  }
  return {};
}

// The installation that a program built with the mpicc on PATH probably uses: PREFIX of PREFIX/bin/mpirun.
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

std::vector<std::string> parameter_files(const GetEnv& get_env) {
  std::vector<std::string> files;
  if (const auto home = get_env("HOME"); home && !home->empty())
    files.push_back(*home + "/.openmpi/mca-params.conf");
  if (const auto prefix = get_env("OPAL_PREFIX"); prefix && !prefix->empty())
    files.push_back(*prefix + "/etc/openmpi-mca-params.conf");
  if (const auto prefix = prefix_on_path(get_env("PATH").value_or("")); !prefix.empty())
    files.push_back(prefix + "/etc/openmpi-mca-params.conf");
  files.emplace_back("/etc/openmpi/openmpi-mca-params.conf");         // Debian's
  files.emplace_back("/etc/openmpi-x86_64/openmpi-mca-params.conf");  // Fedora's and RHEL's
  return files;
}

struct Ipv4 {
  bool itself = false;  // the interface has an address
  bool others = false;  // another interface that is up and not loopback has one
};

Ipv4 find_ipv4(const std::string& interface) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  Ipv4 found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const std::string_view name = one->ifa_name;
    (name.substr(0, name.find(':')) == interface ? found.itself : found.others) = true;
  }
  return found;
}

}  // namespace

TcpInterfaceAdvice advise_tcp_interface(const std::string& interface, const GetEnv& get_env) {
  const Ipv4 ipv4 = find_ipv4(interface);
  if (!ipv4.itself) return {};
  TcpInterfaceAdvice advice{ipv4.others, {}};
  const auto keep = [&](std::string where) {
    return TcpInterfaceAdvice{false, advice.should_set ? std::move(where) : std::string()};
  };
  for (const char* name : {"OMPI_MCA_btl_tcp_if_exclude", "OMPI_MCA_mca_base_param_files"})
    if (get_env(name)) return keep(std::string(name) + " is set");
  for (const auto& file : parameter_files(get_env)) {
    const std::string text = read_file(file);
    const Setting setting = parse_setting(text);
    if (setting.loopback_alone)
      advice.should_set = true;
    else if (!setting.name.empty())
      return keep(file + " sets " + std::string(setting.name));
  }
  return advice;
}

}  // namespace muster::open_mpi
