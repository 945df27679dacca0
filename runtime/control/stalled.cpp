// SPDX-License-Identifier: Apache-2.0
// What a rank that cannot go on tells rank 0, and throws.
#include <fmt/format.h>

#include "bootstrap/roster.hpp"
#include "control/members.hpp"
#include "control/plane.hpp"

namespace muster::control {

using std::chrono::milliseconds;

void Plane::stalled(const std::string& group, const std::vector<int>& members, std::uint64_t number,
                    const std::string& operation, milliseconds waited) {
  check();
  post({{"is", "stalled"},
        {"group", group},
        {"members", members_to_message(members, static_cast<int>(options_.roster.size()))},
        {"number", number},
        {"operation", operation},
        {"ms", waited.count()}});
  inbox_.wait_for_failure(leader_grace);
  check();
  rank_0_does_not_answer(fmt::format("{} was not done after {} on {}", place_of(operation, number, group),
                                     text_of(waited), bootstrap::name_of_rank(self())),
                         leader_grace);
}

void Plane::warn_stalled(const std::string& group, const std::vector<int>& members, std::uint64_t number,
                         const std::string& operation, milliseconds waited) {
  post({{"is", "stalled"},
        {"warning", true},
        {"group", group},
        {"members", members_to_message(members, static_cast<int>(options_.roster.size()))},
        {"number", number},
        {"operation", operation},
        {"ms", waited.count()}});
}

void Plane::broke_in(const std::string& group, const std::vector<int>& members, std::uint64_t number,
                     const std::string& operation, Fault fault, const std::string& reason) {
  check();
  post({{"is", "stalled"},
        {"group", group},
        {"members", members_to_message(members, static_cast<int>(options_.roster.size()))},
        {"number", number},
        {"operation", operation},
        {"ms", 0},
        {"fault", static_cast<int>(fault)},
        {"reason", reason}});
  inbox_.wait_for_failure(leader_grace);
  check();
  throw Error(fault, place_of(operation, number, group) + " failed: " + reason);
}

void Plane::give_up(Fault fault, const std::string& text) {
  check();
  post({{"is", "broken"}, {"fault", static_cast<int>(fault)}, {"speaker", rank_}, {"text", text}});
  inbox_.wait_for_failure(leader_grace);
  check();
  throw Error(fault, text);
}

}  // namespace muster::control
