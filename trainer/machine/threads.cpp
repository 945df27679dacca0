// SPDX-License-Identifier: Apache-2.0
#include "machine/threads.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <string_view>

namespace muster {
namespace {

constexpr int largest_cpu = 65535;

/// All of `text` as an integer from 0 to `largest`, or -1.
int parse_number(std::string_view text, int largest) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 && value <= largest ? value
                                                                                                    : -1;
}

}  // namespace

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const std::size_t dash = part.find('-');
    const int first = parse_number(part.substr(0, dash), largest_cpu);
    const int last =
        dash == std::string_view::npos ? first : parse_number(part.substr(dash + 1), largest_cpu);
    for (int cpu = first; first >= 0 && cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

int fair_threads(const std::vector<Hello>& roster, int rank) {
  const Hello& mine = roster.at(static_cast<std::size_t>(rank));
  std::map<int, int> users;
  for (const Hello& hello : roster) {
    if (hello.host != mine.host || hello.boot_id != mine.boot_id) continue;
    for (const int cpu : parse_cpu_list(hello.cpus)) ++users[cpu];
  }
  double share = 0;
  for (const int cpu : parse_cpu_list(mine.cpus)) share += 1.0 / users[cpu];
  return std::max(1, static_cast<int>(share + 1e-9));
}

int choose_threads(int requested, const std::vector<Hello>& roster, int rank) {
  if (requested > 0) return requested;
  if (const char* variable = std::getenv("OMP_NUM_THREADS")) {
    // A list ("4,2") has the threads of nested levels; the first value is the outermost level's.
    const std::string_view text = variable;
    const int threads = parse_number(text.substr(0, text.find(',')), 4096);
    if (threads > 0) return threads;
  }
  return fair_threads(roster, rank);
}

}  // namespace muster
