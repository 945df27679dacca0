// SPDX-License-Identifier: Apache-2.0
#include "muster/communicator.hpp"

#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "communicator/backend.hpp"
#include "communicator/operation.hpp"
#include "communicator/pending_work.hpp"

namespace muster {

using detail::CollectiveCall;
using detail::OperationKind;
using observe::Operation;
namespace {

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  auto const* const first = static_cast<const std::byte*>(a);
  auto const* const second = static_cast<const std::byte*>(b);
  std::less<> const before;
  return a_bytes > 0 && b_bytes > 0 && before(first, second + b_bytes) && before(second, first + a_bytes);
}

bool is_in_place(const CollectiveCall& call, int rank) {
  auto const share = call.count * size_of(call.type);
  auto const at_rank = [&](const void* shares) {
    return static_cast<const std::byte*>(shares) + static_cast<std::size_t>(rank) * share;
  };
  switch (call.kind) {
    case OperationKind::all_gather:
      return call.in == at_rank(call.out);
    case OperationKind::all_gather_v: {
      auto const before = std::reduce(call.counts.begin(), call.counts.begin() + rank);
      return call.in == static_cast<std::byte*>(call.out) + before * size_of(call.type);
    }
    case OperationKind::reduce_scatter:
      return call.out == at_rank(call.in);
    case OperationKind::reduce_scatter_v: {
      auto const before = std::reduce(call.counts.begin(), call.counts.begin() + rank);
      return call.out == static_cast<const std::byte*>(call.in) + before * size_of(call.type);
    }
    case OperationKind::all_to_all:
    case OperationKind::all_to_all_v:
      return false;
    default:
      return call.in == call.out;
  }
}

}  // namespace

Communicator::Communicator(std::shared_ptr<detail::CommunicatorBackend> collectives)
    : collectives_(std::move(collectives)) {}

int Communicator::rank() const noexcept { return collectives_->rank(); }
int Communicator::size() const noexcept { return collectives_->size(); }
const char* Communicator::backend() const noexcept { return collectives_->backend(); }

void Communicator::barrier(Stream stream) {
  require_no_group("barrier");
  run({OperationKind::barrier}, stream);
}

void Communicator::synchronize(Stream stream) {
  require_no_group("synchronize");
  collectives_->wait_for_started();
  Operation const call(*collectives_, OperationKind::synchronize, 0);
  collectives_->synchronize(stream);
}

Communicator Communicator::split(int color, int key) const {
  require_no_group("split");
  collectives_->wait_for_started();
  if (color < 0) throw Error(ErrorCode::usage, fmt::format("split: color {} is negative", color));
  Operation const call(*collectives_, OperationKind::split, 0);
  return Communicator(collectives_->split(color, key));
}

void Communicator::run(const CollectiveCall& call, Stream stream) {
  int const own = rank();
  int const ranks = size();
  auto const in_bytes = call.in_count(static_cast<std::size_t>(ranks)) * size_of(call.type);
  auto const out_bytes = call.out_count(static_cast<std::size_t>(ranks)) * size_of(call.type);
  auto const throw_usage = [&](const std::string& text) {
    throw Error(ErrorCode::usage, fmt::format("{}: {}", observe::to_string(call.kind), text));
  };
  if (!is_in_place(call, own) && overlap(call.in, in_bytes, call.out, out_bytes))
    throw_usage("the two buffers overlap");
  if (call.peer < 0 || call.peer >= ranks)
    throw_usage(fmt::format("rank {} is not in 0 … {}", call.peer, ranks - 1));
  if (call.is_message() && call.peer == own)
    throw_usage(fmt::format("rank {} cannot {} itself", own,
                            call.kind == OperationKind::send ? "send to" : "receive from"));
  if (call.kind == OperationKind::all_to_all_v) {
    auto const sent = call.counts[static_cast<std::size_t>(own)];
    auto const received = call.recv_counts[static_cast<std::size_t>(own)];
    if (sent != received)
      throw_usage(fmt::format("rank {} sends itself {} elements and receives {}", own, sent, received));
  }
  if (call.factor && call.type > DataType::float16)
    throw_usage(fmt::format("premul_sum is for floats, not for {}", name_of(call.type)));
  bool const is_recorded = collectives_->in_group();
  if (!is_recorded) collectives_->wait_for_started();
  Operation const operation(*collectives_, call.kind, in_bytes);
  if (is_recorded) return collectives_->grouped().add(call, stream);
  collectives_->run(call, stream);
}

void Communicator::require_factor(std::size_t mine, std::size_t all, const char* operation) const {
  auto const ranks = static_cast<std::size_t>(size());
  if (all / ranks == mine && all % ranks == 0) return;
  throw Error(ErrorCode::usage,
              fmt::format("{}: {} elements for {} ranks of {} elements each", operation, all, ranks, mine));
}

void Communicator::require_equal(std::size_t in, std::size_t out, const char* operation) const {
  if (in == out) return;
  throw Error(ErrorCode::usage, fmt::format("{}: {} elements in, {} elements out", operation, in, out));
}

void Communicator::require_sum(std::size_t all, std::span<const std::size_t> counts,
                               const char* operation) const {
  auto const ranks = static_cast<std::size_t>(size());
  if (counts.size() != ranks)
    throw Error(ErrorCode::usage, fmt::format("{}: {} counts for {} ranks", operation, counts.size(), ranks));
  auto const sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  if (all != sum)
    throw Error(ErrorCode::usage,
                fmt::format("{}: {} elements in all, but the counts add up to {}", operation, all, sum));
}

void Communicator::require_shares(std::size_t mine, std::size_t all, std::span<const std::size_t> counts,
                                  const char* operation) const {
  require_sum(all, counts, operation);
  auto const own = counts[static_cast<std::size_t>(rank())];
  if (mine != own) {
    throw Error(ErrorCode::usage,
                fmt::format("{}: {} elements on rank {}, but its count is {}", operation, mine, rank(), own));
  }
}

void Communicator::require_slices(std::size_t in, std::size_t out, std::span<const std::size_t> send_counts,
                                  std::span<const std::size_t> recv_counts) const {
  require_sum(in, send_counts, "all_to_all_v");
  require_sum(out, recv_counts, "all_to_all_v");
}

void Communicator::require_no_group(const char* operation) const {
  if (collectives_->in_group())
    throw Error(ErrorCode::usage, fmt::format("{}: not possible among grouped calls", operation));
}

CallGroup::CallGroup(Communicator communicator) : communicator_(std::move(communicator)) {
  communicator_.require_no_group("grouped");
  communicator_.collectives_->grouped().begin();
}

CallGroup::~CallGroup() {
  if (!issued_) communicator_.collectives_->grouped().discard();
}

detail::CommunicatorBackend& CallGroup::end() {
  if (issued_) throw Error(ErrorCode::usage, "grouped: the calls were issued already");
  issued_ = true;
  return *communicator_.collectives_;
}

void CallGroup::issue() {
  auto& backend = end();
  auto calls = backend.grouped().take();
  backend.wait_for_started();
  Operation const call(backend, OperationKind::grouped, 0);
  backend.run_group(std::move(calls));
}

Work CallGroup::issue_async() {
  auto& backend = end();
  return {communicator_.collectives_, backend.start_group(backend.grouped().take())};
}

}  // namespace muster
