// SPDX-License-Identifier: Apache-2.0
#include "launcher/hostfile_check.hpp"

#include <fmt/format.h>

#include <sstream>

#include "file/regular_file.hpp"
#include "text/parse_number.hpp"

namespace muster::bootstrap {
namespace {

constexpr std::size_t max_file_bytes = 4u << 20;

// Of lines "HOST slots=N"; a host without slots has one.
long count_slots(const std::string& hostfile) {
  long slots = 0;
  std::istringstream lines(hostfile);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    long own = 1;
    while (words >> word)
      if (word.starts_with("slots=")) own = parse_number<long>(word.substr(6)).value_or(0);
    slots += own;
  }
  return slots;
}

}  // namespace

std::optional<Error> check_hostfile_was_read(const GetEnv& get_env) {
  auto const path = get_env("OMPI_MCA_orte_default_hostfile");
  bool const is_open_mpi_5 = !get_env("PRTE_LAUNCHED").empty();
  auto const known = parse_number<long>(get_env("OMPI_UNIVERSE_SIZE")).value_or(0);
  if (path.empty() || !is_open_mpi_5 || known == 0) return std::nullopt;
  auto const file = read_regular_file(path, max_file_bytes);
  if (!file) return std::nullopt;
  auto const slots = count_slots(file->text);
  if (slots <= known) return std::nullopt;
  return Error(ErrorCode::environment,
               fmt::format("join: mpirun knows {} slots, but the hostfile {} has {}: Open MPI {} ignores "
                           "OMPI_MCA_orte_default_hostfile, so that all ranks run on one host; set "
                           "PRTE_MCA_prte_default_hostfile={} where mpirun starts",
                           known, path, slots, get_env("OMPI_VERSION"), path),
               get_env("OMPI_COMM_WORLD_RANK") != "0");
}

}  // namespace muster::bootstrap
