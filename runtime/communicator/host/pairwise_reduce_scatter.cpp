// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/pairwise_reduce_scatter.hpp"

#include <algorithm>
#include <numeric>

#include "communicator/host/reduce_elements.hpp"

namespace muster::detail {
namespace {

// Bytes that a rank receives for one piece, of which two are in flight, and the least length of a message.
constexpr std::size_t scatter_bytes = 1u << 20;
constexpr std::size_t min_scatter_message = 32u << 10;

}  // namespace

PairwiseReduceScatter::PairwiseReduceScatter(PointToPoint& messages, int rank, int ranks)
    : messages_(messages),
      rank_(static_cast<std::size_t>(rank)),
      operands_(static_cast<std::size_t>(ranks)) {}

void PairwiseReduceScatter::reduce_scatter(const void* in, void* out, std::span<const std::size_t> counts,
                                           DataType type, Reduction op) {
  auto const size = size_of(type);
  auto const peers = operands_.size() - 1;
  auto const units = std::max<std::size_t>(1, scatter_bytes / peers / min_scatter_message);
  auto const piece_elements = units * min_scatter_message / size;
  auto const* const from = static_cast<const std::byte*>(in);
  auto* const to = static_cast<std::byte*>(out);
  std::vector<std::size_t> shares(counts.size());  // where they begin
  std::exclusive_scan(counts.begin(), counts.end(), shares.begin(), std::size_t{0});
  auto const bytes_at = [&](std::size_t begin, std::size_t rank) {
    return (std::min(begin + piece_elements, std::max(begin, counts[rank])) - begin) * size;
  };
  auto const start = [&](InFlight& current, std::size_t begin) {
    auto const own = bytes_at(begin, rank_);
    current.received.resize(std::max(current.received.size(), peers * own));
    for (std::size_t i = 1; i <= peers; ++i)
      messages_.begin_recv(current.received.data() + (i - 1) * own, own, static_cast<int>(after(i)),
                           current.batch);
    for (std::size_t i = peers; i >= 1; --i)
      messages_.begin_send(from + (shares[after(i)] + begin) * size, bytes_at(begin, after(i)),
                           static_cast<int>(after(i)), current.batch);
  };
  auto const finish = [&](InFlight& current, std::size_t begin) {
    messages_.wait(current.batch);
    auto const own = bytes_at(begin, rank_);
    if (own == 0) return;
    operands_[rank_] = from + (shares[rank_] + begin) * size;
    for (std::size_t i = 1; i <= peers; ++i) operands_[after(i)] = current.received.data() + (i - 1) * own;
    reduce_elements(to + begin * size, operands_, own / size, type, op, static_cast<int>(operands_.size()));
  };
  auto const longest = *std::max_element(counts.begin(), counts.end());
  std::size_t piece = 0;
  for (std::size_t begin = 0; begin < longest; begin += piece_elements, ++piece) {
    start(in_flight_[piece % 2], begin);
    if (begin > 0) finish(in_flight_[(piece + 1) % 2], begin - piece_elements);
  }
  finish(in_flight_[(piece + 1) % 2], (longest - 1) / piece_elements * piece_elements);
}

}  // namespace muster::detail
