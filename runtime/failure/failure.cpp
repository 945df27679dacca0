// SPDX-License-Identifier: Apache-2.0
#include "failure/failure.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "roster/roster.hpp"

namespace muster::control {

Message to_message(const Failure& failure) {
  return {{"is", "failure"},
          {"code", static_cast<int>(failure.code)},
          {"speaker", failure.reporter},
          {"text", failure.text},
          {"lost", failure.lost},
          {"certain", failure.confirmed_dead}};
}

Failure parse_failure(const Message& message) {
  int const code = std::clamp(message.at("code").get<int>(), 0, static_cast<int>(ErrorCode::system));
  return {static_cast<ErrorCode>(code), message.at("speaker").get<int>(),
          message.at("text").get<std::string>(), message.value("lost", -1), message.value("certain", false)};
}

Failure make_rank_loss(const Hello& lost, int reporter, const DisconnectCause& cause) {
  return {ErrorCode::lost_rank, reporter,
          fmt::format("{}, pid {}, {}", bootstrap::describe_rank(lost), lost.pid, cause.text), lost.rank,
          cause.confirmed_dead};
}

int reporter_when_rank0_lost(const std::vector<Hello>& roster) {
  const Hello& lost = roster.front();
  auto const elsewhere = std::find_if(roster.begin(), roster.end(), [&](const Hello& hello) {
    return hello.host != lost.host || hello.boot_id != lost.boot_id;
  });
  return elsewhere == roster.end() ? 1 : elsewhere->rank;
}

}  // namespace muster::control
