// SPDX-License-Identifier: Apache-2.0
#include "launcher/hostfile_check.hpp"

#include <fmt/format.h>

#include <sstream>

#include "file/regular_file.hpp"
#include "text/parse_number.hpp"

namespace muster::bootstrap {
namespace {

constexpr std::size_t max_file_bytes = 4u << 20;

struct Slots {
  long all = 0;
  long here = 0;
};

// Of lines "HOST slots=N"; a host without slots has one. A host's first label is its name in its own pod.
Slots count_slots(const std::string& hostfile, const std::string& host) {
  Slots slots;
  std::istringstream lines(hostfile);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, word;
    if (!(words >> name)) continue;
    long own = 1;
    while (words >> word)
      if (word.starts_with("slots=")) own = parse_number<long>(word.substr(6)).value_or(0);
    slots.all += own;
    if (name.substr(0, name.find('.')) == host.substr(0, host.find('.'))) slots.here += own;
  }
  return slots;
}

}  // namespace

std::optional<Error> check_hostfile_was_read(const GetEnv& get_env, const std::string& host) {
  auto const path = get_env("OMPI_MCA_orte_default_hostfile");
  bool const is_open_mpi_5 = !get_env("PRTE_LAUNCHED").empty();
  if (path.empty() || !is_open_mpi_5) return std::nullopt;
  auto const number = [&](const char* name) { return parse_number<long>(get_env(name)).value_or(0); };
  auto const ranks = number("OMPI_COMM_WORLD_SIZE");
  if (ranks == 0 || number("OMPI_COMM_WORLD_LOCAL_SIZE") != ranks) return std::nullopt;
  auto const file = read_regular_file(path, max_file_bytes);
  if (!file) return std::nullopt;
  auto const slots = count_slots(file->text, host);
  if (ranks <= slots.here && number("OMPI_UNIVERSE_SIZE") >= slots.all) return std::nullopt;
  return Error(ErrorCode::environment,
               fmt::format("join: all {} ranks run on host {}, which has {} of the {} slots in the hostfile "
                           "{}: Open MPI {} ignores OMPI_MCA_orte_default_hostfile; set "
                           "PRTE_MCA_prte_default_hostfile={} where mpirun starts",
                           ranks, host, slots.here, slots.all, path, get_env("OMPI_VERSION"), path),
               get_env("OMPI_COMM_WORLD_RANK") != "0");
}

}  // namespace muster::bootstrap
