// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/inter_host_all_reduce.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "communicator/host/reduce_elements.hpp"
#include "communicator/host/shared_segment.hpp"

namespace muster::detail {
namespace {

// What is on its way at once, twice.
constexpr std::size_t piece_bytes = 1u << 20;
// Up to here the number of steps counts more than that each of them carries everything.
constexpr std::size_t unsplit_bytes = 32u << 10;
// Over TCP Open MPI sends messages below 64 KiB at once and longer ones when the receiver has answered
// (btl_tcp_eager_limit). Up to here a swap goes in several of the former.
constexpr std::size_t eager_swap_bytes = 128u << 10;
constexpr std::size_t eager_bytes = 32u << 10;
// Two leaders send no more in one step than in two, unless results are narrower.
constexpr std::size_t unsplit_bytes_of_two = 256u << 10;

const std::byte* at(const void* buffer, std::size_t index, DataType type) {
  return static_cast<const std::byte*>(buffer) + index * size_of(type);
}
std::byte* at(void* buffer, std::size_t index, DataType type) {
  return static_cast<std::byte*>(buffer) + index * size_of(type);
}

// An average is divided at the end alone.
Reduction partial_op(Reduction op) { return op == Reduction::average ? Reduction::sum : op; }

}  // namespace

InterHostAllReduce::InterHostAllReduce(PointToPoint& messages, std::vector<int> leaders, std::size_t own, int ranks)
    : messages_(messages),
      leaders_(std::move(leaders)),
      own_(own),
      ranks_(ranks),
      operands_(leaders_.size()) {}

void InterHostAllReduce::all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op) {
  auto const most = piece_bytes / size_of(type);
  for (std::size_t begin = 0; begin < count; begin += most) {
    start({at(in, begin, type), at(out, begin, type), std::min(most, count - begin), type, type, op});
    if (begin > 0) finish();
  }
  finish();
}

bool InterHostAllReduce::is_swapped(const Piece& piece) const {
  return leaders_.size() == 2 &&
         (piece.wire == piece.type || piece.count * size_of(piece.wire) <= unsplit_bytes_of_two);
}

bool InterHostAllReduce::is_short(const Piece& piece) const {
  return piece.count * size_of(piece.wire) <= unsplit_bytes;
}

// Slices end on cache lines.
InterHostAllReduce::Slice InterHostAllReduce::slice(const Piece& piece, std::size_t leader) const {
  auto const line = cache_line / size_of(piece.type);
  auto const most = ((piece.count + leaders_.size() - 1) / leaders_.size() + line - 1) / line * line;
  auto const begin = std::min(piece.count, leader * most);
  return {begin, std::min(most, piece.count - begin)};
}

void InterHostAllReduce::start(const Piece& piece) {
  UnderWay& way = under_way_[started_++ % under_way_.size()];
  way.piece = piece;
  if (is_swapped(piece)) {
    auto const bytes = piece.count * size_of(piece.wire);
    way.received.resize(std::max(way.received.size(), bytes));
    return begin_swap(piece.in, way.received.data(), bytes, after(1), way.batch);
  }
  if (is_short(piece)) return;
  auto const own = slice(piece, own_).count * size_of(piece.wire);
  way.received.resize(std::max(way.received.size(), own * (leaders_.size() - 1)));
  for (std::size_t i = 1; i < leaders_.size() && own > 0; ++i)
    messages_.begin_recv(way.received.data() + (i - 1) * own, own, leaders_[after(i)], way.batch);
  for (std::size_t i = 1; i < leaders_.size(); ++i) {
    auto const theirs = slice(piece, after(i));
    if (theirs.count > 0)
      messages_.begin_send(at(piece.in, theirs.begin, piece.wire), theirs.count * size_of(piece.wire),
                           leaders_[after(i)], way.batch);
  }
}

void InterHostAllReduce::finish() {
  UnderWay& way = under_way_[finished_++ % under_way_.size()];
  if (!is_swapped(way.piece) && is_short(way.piece)) return double_up(way);
  messages_.wait(way.batch);
  if (is_swapped(way.piece)) return reduce_pair(way);
  reduce_slice(way);
  const Piece& piece = way.piece;
  auto const own = slice(piece, own_);
  auto const size = size_of(piece.type);
  for (std::size_t i = 1; i < leaders_.size(); ++i) {
    auto const theirs = slice(piece, after(i));
    if (theirs.count > 0)
      messages_.begin_recv(at(piece.out, theirs.begin, piece.type), theirs.count * size, leaders_[after(i)],
                           way.batch);
    if (own.count > 0)
      messages_.begin_send(at(piece.out, own.begin, piece.type), own.count * size, leaders_[after(i)],
                           way.batch);
  }
  messages_.wait(way.batch);
}

void InterHostAllReduce::reduce_pair(const UnderWay& way) {
  const Piece& piece = way.piece;
  operands_[own_] = piece.in;
  operands_[after(1)] = way.received.data();
  reduce_elements(piece.out, piece.type, operands_, piece.count, piece.wire, piece.op, ranks_);
}

void InterHostAllReduce::reduce_slice(UnderWay& way) {
  const Piece& piece = way.piece;
  auto const own = slice(piece, own_);
  operands_[own_] = at(piece.in, own.begin, piece.wire);
  for (std::size_t i = 1; i < leaders_.size(); ++i)
    operands_[after(i)] = way.received.data() + (i - 1) * own.count * size_of(piece.wire);
  reduce_elements(at(piece.out, own.begin, piece.type), piece.type, operands_, own.count, piece.wire,
                  piece.op, ranks_);
}

// The message is on its way before its counterpart is looked for.
void InterHostAllReduce::begin_swap(const void* value, std::byte* theirs, std::size_t bytes,
                                  std::size_t partner, PointToPoint::Batch& batch) {
  auto const most = bytes <= eager_swap_bytes ? eager_bytes : bytes;
  auto const* const from = static_cast<const std::byte*>(value);
  for (std::size_t at = 0; at < bytes; at += most)
    messages_.begin_send(from + at, std::min(most, bytes - at), leaders_[partner], batch);
  for (std::size_t at = 0; at < bytes; at += most)
    messages_.begin_recv(theirs + at, std::min(most, bytes - at), leaders_[partner], batch);
}

void InterHostAllReduce::swap(const void* value, std::byte* theirs, std::size_t bytes, std::size_t partner,
                            PointToPoint::Batch& batch) {
  begin_swap(value, theirs, bytes, partner, batch);
  messages_.wait(batch);
}

// Recursive doubling (Thakur, Rabenseifner, Gropp, 2005). Of the leaders beyond a power of two, each hands
// its operand to its neighbour and gets the result from it. Both of a pair reduce the lower one's value
// first.
void InterHostAllReduce::double_up(UnderWay& way) {
  const Piece& piece = way.piece;
  auto const power = std::bit_floor(leaders_.size());
  auto const paired = 2 * (leaders_.size() - power);
  auto const work = partial_type(piece.wire);
  auto const bytes = piece.count * size_of(work);
  way.received.resize(std::max(way.received.size(), bytes));
  partial_.resize(std::max(partial_.size(), bytes));
  std::byte* const theirs = way.received.data();
  const void* value = piece.in;
  if (work != piece.wire) {
    reduce_elements(partial_.data(), work, {&value, 1}, piece.count, piece.wire, Reduction::sum, 1);
    value = partial_.data();
  }
  auto const result_bytes = piece.count * size_of(piece.type);
  if (own_ < paired && own_ % 2 == 0) {
    messages_.begin_send(value, bytes, leaders_[own_ + 1], way.batch);
    messages_.wait(way.batch);
    messages_.begin_recv(piece.out, result_bytes, leaders_[own_ + 1], way.batch);
    return messages_.wait(way.batch);
  }
  if (own_ < paired) {
    messages_.begin_recv(theirs, bytes, leaders_[own_ - 1], way.batch);
    messages_.wait(way.batch);
    const void* const pair[] = {theirs, value};
    reduce_elements(partial_.data(), pair, piece.count, work, partial_op(piece.op), 1);
    value = partial_.data();
  }
  auto const place = own_ < paired ? own_ / 2 : own_ - paired / 2;
  for (std::size_t step = 1; step < power; step *= 2) {
    auto const other = place ^ step;
    auto const partner = other < paired / 2 ? 2 * other + 1 : other + paired / 2;
    swap(value, theirs, bytes, partner, way.batch);
    const void* const pair[] = {place < other ? value : theirs, place < other ? theirs : value};
    if (2 * step == power) {
      reduce_elements(piece.out, piece.type, pair, piece.count, work, piece.op, ranks_);
    } else {
      reduce_elements(partial_.data(), pair, piece.count, work, partial_op(piece.op), 1);
      value = partial_.data();
    }
  }
  if (own_ < paired) {
    messages_.begin_send(piece.out, result_bytes, leaders_[own_ - 1], way.batch);
    messages_.wait(way.batch);
  }
}

}  // namespace muster::detail
