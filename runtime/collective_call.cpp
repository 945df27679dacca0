// SPDX-License-Identifier: Apache-2.0
#include "muster/collective_call.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace muster::detail {
namespace {

bool reduces(OperationKind kind) {
  return kind == OperationKind::all_reduce || kind == OperationKind::reduce ||
         kind == OperationKind::reduce_scatter || kind == OperationKind::reduce_scatter_v;
}

// Each rank's share has a length of its own, and every rank has all lengths.
bool has_shares(OperationKind kind) {
  return kind == OperationKind::all_gather_v || kind == OperationKind::reduce_scatter_v;
}

bool has_root(OperationKind kind) {
  return kind == OperationKind::reduce || kind == OperationKind::broadcast;
}

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

std::uint64_t CollectiveCall::digest() const noexcept {
  // Odd multipliers with about as many ones as zeros, so that every argument changes the upper bits.
  constexpr std::uint64_t first = 0x9e3779b97f4a7c15, second = 0xc2b2ae3d27d4eb4f;
  auto const arguments = static_cast<std::uint64_t>(kind) | static_cast<std::uint64_t>(type) << 8 |
                         static_cast<std::uint64_t>(reduces(kind) ? reduction : Reduction::sum) << 16 |
                         static_cast<std::uint64_t>(factor.has_value()) << 24 |
                         static_cast<std::uint64_t>(has_root(kind) ? peer : 0) << 32;
  if (!has_shares(kind)) return (arguments + 1) * first ^ count * second;
  auto digest = (arguments + 1) * first;
  for (auto const share : counts) digest = (digest ^ share) * second;
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
