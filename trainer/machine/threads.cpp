// SPDX-License-Identifier: Apache-2.0
#include "machine/threads.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>

#include "cpu_set/cpu_set.hpp"
#include "text/parse_number.hpp"

namespace muster {
namespace {

std::vector<int> cpus_of(const Hello& hello) {
  return CpuSet::parse_list(hello.cpus).value_or(CpuSet()).to_vector();
}

}  // namespace

int fair_threads(const std::vector<Hello>& roster, int rank) {
  const Hello& mine = roster.at(static_cast<std::size_t>(rank));
  std::map<int, int> users;
  for (const Hello& hello : roster) {
    if (hello.host != mine.host || hello.boot_id != mine.boot_id) continue;
    for (const int cpu : cpus_of(hello)) ++users[cpu];
  }
  double share = 0;
  for (const int cpu : cpus_of(mine)) share += 1.0 / users[cpu];
  return std::max(1, static_cast<int>(share + 1e-9));
}

int choose_threads(int requested, const std::vector<Hello>& roster, int rank) {
  if (requested > 0) return requested;
  if (const char* variable = std::getenv("OMP_NUM_THREADS")) {
    // A list ("4,2") has the threads of nested levels; the first value is the outermost level's.
    const std::string_view text = variable;
    const int threads = parse_number<int>(text.substr(0, text.find(','))).value_or(0);
    if (threads > 0 && threads <= 4096) return threads;
  }
  return fair_threads(roster, rank);
}

int choose_data_threads(int requested, int compute_threads, const std::vector<Hello>& roster, int rank) {
  return requested > 0 ? requested : std::max(1, fair_threads(roster, rank) - compute_threads);
}

}  // namespace muster
