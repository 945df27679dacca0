// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/inter_host_all_reduce.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "communicator/host/reduce_elements.hpp"
#include "shared_memory/shared_segment.hpp"

namespace muster::detail {
namespace {

// Bytes of a piece; two are in flight at a time.
constexpr std::size_t piece_bytes = 1u << 20;
// Up to this size fewer steps are faster, although each of them sends the whole buffer.
constexpr std::size_t unsplit_bytes = 32u << 10;
// Over TCP Open MPI sends messages below 64 KiB at once, and longer ones after the receiver's reply
// (btl_tcp_eager_limit). Up to this size a swap is cut into several eager messages.
constexpr std::size_t eager_swap_bytes = 128u << 10;
constexpr std::size_t eager_bytes = 32u << 10;
// With two leaders one step sends no more than two steps, unless the result's type is narrower.
constexpr std::size_t unsplit_bytes_two_leaders = 256u << 10;

// An average is divided only at the end.
Reduction partial_op(Reduction op) { return op == Reduction::average ? Reduction::sum : op; }

}  // namespace

InterHostAllReduce::InterHostAllReduce(PointToPoint& messages, std::vector<int> leaders, std::size_t own,
                                       int ranks)
    : messages_(messages),
      leaders_(std::move(leaders)),
      own_(own),
      ranks_(ranks),
      operands_(leaders_.size()) {}

void InterHostAllReduce::all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                                    std::uint64_t /*digest*/) {
  auto const most = piece_bytes / size_of(type);
  for (std::size_t begin = 0; begin < count; begin += most) {
    start({at_element(in, begin, type), at_element(out, begin, type), std::min(most, count - begin), type,
           type, op});
    if (begin > 0) finish();
  }
  finish();
}

bool InterHostAllReduce::is_swapped(const Piece& piece) const {
  return leaders_.size() == 2 &&
         (piece.wire == piece.type || piece.count * size_of(piece.wire) <= unsplit_bytes_two_leaders);
}

bool InterHostAllReduce::is_unsplit(const Piece& piece) const {
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
  InFlight& current = in_flight_[started_++ % in_flight_.size()];
  current.piece = piece;
  if (is_swapped(piece)) {
    auto const bytes = piece.count * size_of(piece.wire);
    current.received.resize(std::max(current.received.size(), bytes));
    return begin_swap(piece.in, current.received.data(), bytes, after(1), current.batch);
  }
  if (is_unsplit(piece)) return;
  auto const own = slice(piece, own_).count * size_of(piece.wire);
  current.received.resize(std::max(current.received.size(), own * (leaders_.size() - 1)));
  for (std::size_t i = 1; i < leaders_.size() && own > 0; ++i)
    messages_.begin_recv(current.received.data() + (i - 1) * own, own, leaders_[after(i)], current.batch);
  for (std::size_t i = 1; i < leaders_.size(); ++i) {
    auto const theirs = slice(piece, after(i));
    if (theirs.count > 0)
      messages_.begin_send(at_element(piece.in, theirs.begin, piece.wire), theirs.count * size_of(piece.wire),
                           leaders_[after(i)], current.batch);
  }
}

void InterHostAllReduce::finish() {
  InFlight& current = in_flight_[finished_++ % in_flight_.size()];
  if (!is_swapped(current.piece) && is_unsplit(current.piece)) return recursive_doubling(current);
  messages_.wait(current.batch);
  if (is_swapped(current.piece)) return reduce_pair(current);
  reduce_slice(current);
  const Piece& piece = current.piece;
  auto const own = slice(piece, own_);
  auto const size = size_of(piece.type);
  for (std::size_t i = 1; i < leaders_.size(); ++i) {
    auto const theirs = slice(piece, after(i));
    if (theirs.count > 0)
      messages_.begin_recv(at_element(piece.out, theirs.begin, piece.type), theirs.count * size,
                           leaders_[after(i)], current.batch);
    if (own.count > 0)
      messages_.begin_send(at_element(piece.out, own.begin, piece.type), own.count * size, leaders_[after(i)],
                           current.batch);
  }
  messages_.wait(current.batch);
}

void InterHostAllReduce::reduce_pair(const InFlight& current) {
  const Piece& piece = current.piece;
  operands_[own_] = piece.in;
  operands_[after(1)] = current.received.data();
  reduce_elements(piece.out, piece.type, operands_, piece.count, piece.wire, piece.op, ranks_);
}

void InterHostAllReduce::reduce_slice(InFlight& current) {
  const Piece& piece = current.piece;
  auto const own = slice(piece, own_);
  operands_[own_] = at_element(piece.in, own.begin, piece.wire);
  for (std::size_t i = 1; i < leaders_.size(); ++i)
    operands_[after(i)] = current.received.data() + (i - 1) * own.count * size_of(piece.wire);
  reduce_elements(at_element(piece.out, own.begin, piece.type), piece.type, operands_, own.count, piece.wire,
                  piece.op, ranks_);
}

// Sends before it receives, so that the message is in flight before MPI looks for its counterpart.
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

// Recursive doubling (Thakur, Rabenseifner, Gropp, 2005). With more leaders than a power of two, each extra
// one sends its operand to its neighbour and receives the result from it. Both of a pair reduce the value of
// the lower one first.
void InterHostAllReduce::recursive_doubling(InFlight& current) {
  const Piece& piece = current.piece;
  auto const power = std::bit_floor(leaders_.size());
  auto const paired = 2 * (leaders_.size() - power);
  auto const work = partial_type(piece.wire);
  auto const bytes = piece.count * size_of(work);
  current.received.resize(std::max(current.received.size(), bytes));
  partial_.resize(std::max(partial_.size(), bytes));
  std::byte* const theirs = current.received.data();
  const void* value = piece.in;
  if (work != piece.wire) {
    reduce_elements(partial_.data(), work, {&value, 1}, piece.count, piece.wire, Reduction::sum, 1);
    value = partial_.data();
  }
  auto const result_bytes = piece.count * size_of(piece.type);
  if (own_ < paired && own_ % 2 == 0) {
    messages_.begin_send(value, bytes, leaders_[own_ + 1], current.batch);
    messages_.wait(current.batch);
    messages_.begin_recv(piece.out, result_bytes, leaders_[own_ + 1], current.batch);
    return messages_.wait(current.batch);
  }
  if (own_ < paired) {
    messages_.begin_recv(theirs, bytes, leaders_[own_ - 1], current.batch);
    messages_.wait(current.batch);
    const void* const pair[] = {theirs, value};
    reduce_elements(partial_.data(), pair, piece.count, work, partial_op(piece.op), 1);
    value = partial_.data();
  }
  auto const place = own_ < paired ? own_ / 2 : own_ - paired / 2;
  for (std::size_t step = 1; step < power; step *= 2) {
    auto const other = place ^ step;
    auto const partner = other < paired / 2 ? 2 * other + 1 : other + paired / 2;
    swap(value, theirs, bytes, partner, current.batch);
    const void* const pair[] = {place < other ? value : theirs, place < other ? theirs : value};
    if (2 * step == power) {
      reduce_elements(piece.out, piece.type, pair, piece.count, work, piece.op, ranks_);
    } else {
      reduce_elements(partial_.data(), pair, piece.count, work, partial_op(piece.op), 1);
      value = partial_.data();
    }
  }
  if (own_ < paired) {
    messages_.begin_send(piece.out, result_bytes, leaders_[own_ - 1], current.batch);
    messages_.wait(current.batch);
  }
}

}  // namespace muster::detail
