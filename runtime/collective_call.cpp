// SPDX-License-Identifier: Apache-2.0
#include "muster/collective_call.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "muster/error.hpp"

namespace muster::detail {
namespace {

// The text goes into messages, so a long list is cut to its digest.
std::string describe_counts(const CollectiveCall& call) {
  constexpr std::size_t most = 16;
  if (call.counts.size() <= most) return fmt::format("{}", fmt::join(call.counts, "+"));
  return fmt::format("{} shares (digest {:x})", call.counts.size(), call.digest());
}

}  // namespace

const char* to_string(OperationKind kind) noexcept {
  static constexpr std::array<const char*, operation_kinds> names{
      "all_reduce",     "reduce",           "broadcast",  "all_gather",   "all_gather_v",
      "reduce_scatter", "reduce_scatter_v", "all_to_all", "all_to_all_v", "send",
      "recv",           "grouped",          "barrier",    "split",        "synchronize"};
  return names[static_cast<std::size_t>(kind)];
}

void throw_not_run(OperationKind kind) {
  throw Error(ErrorCode::system, fmt::format("{} is not run as a collective", to_string(kind)));
}

CollectiveCall unpack_call(std::uint64_t packed_arguments, std::size_t count) {
  auto const byte = [packed_arguments](int at) { return packed_arguments >> at & 0xff; };
  return {.kind = static_cast<OperationKind>(byte(0)),
          .count = count,
          .type = static_cast<DataType>(byte(8)),
          .reduction = static_cast<Reduction>(byte(16)),
          .peer = static_cast<int>(packed_arguments >> 32),
          .factor = byte(24) != 0 ? std::optional(1.0) : std::nullopt};
}

std::uint64_t CollectiveCall::digest_of_shares() const noexcept {
  auto digest = (packed_arguments() + 1) * first_multiplier;
  for (auto const share : counts) digest = (digest ^ share) * second_multiplier;
  return digest;
}

std::string describe_call(const CollectiveCall& call) {
  constexpr std::array reductions{"sum", "average", "min", "max", "product"};
  std::string text = to_string(call.kind);
  if (call.kind == OperationKind::barrier) return text;
  // Its counts differ between ranks.
  if (call.kind == OperationKind::all_to_all_v) return fmt::format("{} of {}", text, name_of(call.type));
  auto const count = has_shares(call.kind) ? describe_counts(call) : std::to_string(call.count);
  text += fmt::format(" of {} {}", count, name_of(call.type));
  if (reduces(call.kind))
    text += fmt::format(", {}",
                        call.factor ? "premul_sum" : reductions.at(static_cast<std::size_t>(call.reduction)));
  if (has_root(call.kind)) text += fmt::format(", root {}", call.peer);
  return text;
}

}  // namespace muster::detail
