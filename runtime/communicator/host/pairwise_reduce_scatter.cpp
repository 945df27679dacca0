// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/pairwise_reduce_scatter.hpp"

#include <algorithm>

#include "communicator/host/reduce_elements.hpp"

namespace muster::detail {
namespace {

// What a rank receives at once, twice, and what a message is at least for that.
constexpr std::size_t scatter_bytes = 1u << 20;
constexpr std::size_t least_scatter_message = 32u << 10;

}  // namespace

PairwiseReduceScatter::PairwiseReduceScatter(PointToPoint& messages, int rank, int ranks)
    : messages_(messages),
      rank_(static_cast<std::size_t>(rank)),
      operands_(static_cast<std::size_t>(ranks)) {}

void PairwiseReduceScatter::reduce_scatter(const void* in, void* out, std::size_t count, DataType type,
                                           Reduction op) {
  auto const size = size_of(type);
  auto const others = operands_.size() - 1;
  auto const units = std::max<std::size_t>(1, scatter_bytes / others / least_scatter_message);
  auto const most = units * least_scatter_message / size;
  auto const* const from = static_cast<const std::byte*>(in);
  auto* const to = static_cast<std::byte*>(out);
  auto const bytes_at = [&](std::size_t begin) { return std::min(most, count - begin) * size; };
  auto const start = [&](UnderWay& way, std::size_t begin) {
    auto const bytes = bytes_at(begin);
    way.received.resize(std::max(way.received.size(), others * bytes));
    for (std::size_t i = 1; i <= others; ++i)
      messages_.begin_recv(way.received.data() + (i - 1) * bytes, bytes, static_cast<int>(after(i)),
                           way.batch);
    for (std::size_t i = others; i >= 1; --i)
      messages_.begin_send(from + (after(i) * count + begin) * size, bytes, static_cast<int>(after(i)),
                           way.batch);
  };
  auto const finish = [&](UnderWay& way, std::size_t begin) {
    messages_.wait(way.batch);
    auto const bytes = bytes_at(begin);
    operands_[rank_] = from + (rank_ * count + begin) * size;
    for (std::size_t i = 1; i <= others; ++i) operands_[after(i)] = way.received.data() + (i - 1) * bytes;
    reduce_elements(to + begin * size, operands_, bytes / size, type, op, static_cast<int>(operands_.size()));
  };
  std::size_t piece = 0;
  for (std::size_t begin = 0; begin < count; begin += most, ++piece) {
    start(under_way_[piece % 2], begin);
    if (begin > 0) finish(under_way_[(piece + 1) % 2], begin - most);
  }
  finish(under_way_[(piece + 1) % 2], (count - 1) / most * most);
}

}  // namespace muster::detail
