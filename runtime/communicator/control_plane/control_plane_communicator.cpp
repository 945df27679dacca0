// SPDX-License-Identifier: Apache-2.0
#include "communicator/control_plane/control_plane_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "communicator/host/premul_sum.hpp"
#include "communicator/host/reduce_elements.hpp"

namespace muster::detail {
namespace {

// Bytes of one control plane message, all ranks' parts together; the hard limit is max_frame_bytes.
constexpr std::size_t round_bytes = 2u << 20;
constexpr std::size_t max_piece_bytes = 256u << 10;

// How many elements each of `parts` parts may have in one piece.
std::size_t piece_elements(std::size_t parts, DataType type) {
  return std::max<std::size_t>(1, std::min(max_piece_bytes, round_bytes / parts) / size_of(type));
}

// A text before data, which prefix_of() finds again.
control::Blob with_prefix(const std::string& text, const void* bytes, std::size_t length) {
  auto const* const first = static_cast<const std::uint8_t*>(bytes);
  control::Blob blob(text.begin(), text.end());
  blob.push_back(0);
  blob.insert(blob.end(), first, first + length);
  return blob;
}

std::string prefix_of(const control::Blob& blob) {
  return {blob.begin(), std::find(blob.begin(), blob.end(), 0)};
}

}  // namespace

void ControlPlaneCommunicator::require_open() const {
  if (!group_.job().plane->has_left()) return;
  group_.check();
  throw Error(ErrorCode::usage, "the communicator was used after the job was left");
}

void ControlPlaneCommunicator::run(const CollectiveCall& given, Stream) {
  require_open();
  begin(given);
  auto const wait_scope = group_.wait_scope();
  if (given.is_message()) return transfer_message(given);
  call_ = describe_call(given);
  PremulSum const scaled(barrier_if_empty(given), rank(), ranks());
  const auto& call = scaled.call();
  if (auto* const here = shm(); here != nullptr && here->can_run(call)) return here->run(call);
  switch (call.kind) {
    case OperationKind::all_reduce:
      return reduce_in_pieces(call, call.out);
    case OperationKind::reduce:
      return reduce_in_pieces(call, rank() == call.peer ? call.out : nullptr);
    case OperationKind::broadcast:
      return broadcast(call);
    case OperationKind::all_gather:
      return all_gather(call);
    case OperationKind::all_gather_v:
      return all_gather_v(call);
    case OperationKind::reduce_scatter:
      return reduce_scatter(call, std::vector<std::size_t>(ranks(), call.count));
    case OperationKind::reduce_scatter_v:
      return reduce_scatter(call, call.counts);
    case OperationKind::all_to_all:
      return all_to_all(call);
    case OperationKind::all_to_all_v:
      return all_to_all_v(call);
    case OperationKind::barrier:
      gather_present(nullptr, 0);
      return;
    default:
      throw_not_run(call.kind);
  }
}

ShmCollectives* ControlPlaneCommunicator::shm() {
  if (group_.job().plane->survives_losses()) return nullptr;
  if (!shm_) shm_ = ShmCollectives::make(group_, interrupted_, prefer_sleep_);
  return shm_->get();
}

bool ControlPlaneCommunicator::reduces_in_shared_memory() {
  group_.begin_operation("setting up");
  auto const wait_scope = group_.wait_scope();
  return shm() != nullptr;
}

void ControlPlaneCommunicator::prefer_sleeping_waits(bool enabled) noexcept { prefer_sleep_ = enabled; }

void ControlPlaneCommunicator::interrupt() noexcept {
  interrupted_ = true;
  group_.job().plane->wake_waiters();
}

// All ranks run the calls in the same order, so that they cannot deadlock.
void ControlPlaneCommunicator::run_group(GroupedCalls::Calls calls) {
  auto const ends = [this](const GroupedCalls::Call& message) {
    return std::pair(sender(message.call), receiver(message.call));
  };
  std::stable_sort(calls.messages.begin(), calls.messages.end(),
                   [&](const auto& a, const auto& b) { return ends(a) < ends(b); });
  for (const auto& recorded : calls.collectives) run(recorded.call, recorded.stream);
  for (const auto& recorded : calls.messages) run(recorded.call, recorded.stream);
}

int ControlPlaneCommunicator::sender(const CollectiveCall& message) const {
  return message.kind == OperationKind::send ? rank() : message.peer;
}
int ControlPlaneCommunicator::receiver(const CollectiveCall& message) const {
  return message.kind == OperationKind::recv ? rank() : message.peer;
}

// The name does not contain the operation, so that ranks in different operations meet and detect the
// mismatch.
std::string ControlPlaneCommunicator::round_name() const {
  return fmt::format("operation {} on communicator '{}'", group_.number(), group_.name());
}

std::vector<std::optional<control::Blob>> ControlPlaneCommunicator::gather_present(const void* bytes,
                                                                                   std::size_t length) {
  auto blobs = group_.job().plane->gather(round_name(), group_.members(), with_prefix(call_, bytes, length),
                                          group_.deadline().remaining(), &interrupted_);
  check_same_call(blobs);
  std::vector<std::optional<control::Blob>> present(blobs.size());
  for (std::size_t r = 0; r < blobs.size(); ++r) {
    if (blobs[r].empty()) continue;  // lost: every other blob has the call
    blobs[r].erase(blobs[r].begin(), blobs[r].begin() + static_cast<long>(call_.size() + 1));
    present[r] = std::move(blobs[r]);
  }
  return present;
}

std::vector<control::Blob> ControlPlaneCommunicator::gather(const void* bytes, std::size_t length) {
  std::vector<control::Blob> blobs;
  for (auto& blob : gather_present(bytes, length)) {
    if (!blob)
      group_.fail(ErrorCode::lost_rank, fmt::format("{} is lost, and the operation needs all ranks",
                                                    describe_rank(static_cast<int>(blobs.size()))));
    blobs.push_back(std::move(*blob));
  }
  return blobs;
}

void ControlPlaneCommunicator::check_same_call(const std::vector<control::Blob>& blobs) {
  auto const name = [this](std::size_t rank) { return describe_rank(static_cast<int>(rank)); };
  auto const is_present = [](const control::Blob& blob) { return !blob.empty(); };
  auto const first_rank = static_cast<std::size_t>(
      std::distance(blobs.begin(), std::find_if(blobs.begin(), blobs.end(), is_present)));
  auto const first = prefix_of(blobs.at(first_rank));
  for (std::size_t r = first_rank + 1; r < blobs.size(); ++r) {
    auto const other = prefix_of(blobs[r]);
    if (!is_present(blobs[r]) || other == first) continue;
    group_.fail(ErrorCode::usage, fmt::format("{} called {}, but {} called {}: all ranks must make the same "
                                              "calls in the same order",
                                              name(r), other, name(first_rank), first));
  }
}

void ControlPlaneCommunicator::broadcast_piece(void* bytes, std::size_t length, int root) {
  control::Blob blob;
  if (rank() == root) {
    auto const* const first = static_cast<const std::uint8_t*>(bytes);
    blob.assign(first, first + length);
  }
  blob = group_.job().plane->broadcast(round_name(), group_.members(),
                                       group_.members().at(static_cast<std::size_t>(root)), blob,
                                       group_.deadline().remaining(), &interrupted_);
  if (blob.size() != length) {
    group_.fail(ErrorCode::usage,
                fmt::format("received {} bytes instead of {}: all ranks must make the same calls in the "
                            "same order",
                            blob.size(), length));
  }
  if (rank() != root) std::memcpy(bytes, blob.data(), length);
}

void ControlPlaneCommunicator::reduce_in_pieces(const CollectiveCall& call, void* out) {
  auto const piece = piece_elements(ranks(), call.type);
  for (std::size_t at = 0; at < call.count; at += piece) {
    auto const length = std::min(piece, call.count - at);
    auto const blobs = gather_present(at_element(call.in, at, call.type), length * size_of(call.type));
    if (out == nullptr) continue;
    std::vector<const void*> operands;
    for (const auto& blob : blobs)
      if (blob) operands.push_back(blob->data());
    reduce_elements(at_element(out, at, call.type), operands, length, call.type, call.reduction,
                    static_cast<int>(operands.size()));
  }
}

// Sender and receiver both call it: the send completes when the message is received. Each piece begins with
// the sender's call, so that a recv of another type or length writes nothing.
void ControlPlaneCommunicator::transfer_message(const CollectiveCall& call) {
  auto const member = [this](int rank) { return group_.members().at(static_cast<std::size_t>(rank)); };
  auto const from = sender(call);
  auto const to = receiver(call);
  auto const length = call.count * size_of(call.type);
  auto const elements = fmt::format("{} {}", call.count, name_of(call.type));
  std::size_t at = 0;
  do {  // a message of 0 elements is one piece
    auto const piece = std::min(round_bytes, length - at);
    control::Blob blob;
    if (rank() == from) {
      auto const* const first = static_cast<const std::uint8_t*>(call.in) + at;
      blob = with_prefix(elements, first, piece);
    }
    blob = group_.job().plane->broadcast(
        fmt::format("message from rank {} to rank {} of communicator '{}'", from, to, group_.name()),
        {member(from), member(to)}, member(from), blob, group_.deadline().remaining(), &interrupted_);
    auto const sent = prefix_of(blob);
    if (sent != elements || blob.size() != elements.size() + 1 + piece)
      group_.fail(ErrorCode::usage,
                  fmt::format("a recv of {} met a send of {} on {}", elements, sent, describe_rank(from)));
    if (rank() == to)
      std::copy_n(blob.data() + elements.size() + 1, piece, static_cast<std::uint8_t*>(call.out) + at);
    at += piece;
  } while (at < length);
}

void ControlPlaneCommunicator::broadcast_bytes(std::byte* bytes, std::size_t length, int root) {
  for (std::size_t at = 0; at < length; at += round_bytes)
    broadcast_piece(bytes + at, std::min(round_bytes, length - at), root);
}

void ControlPlaneCommunicator::broadcast(const CollectiveCall& call) {
  gather_present(nullptr, 0);  // checks that all ranks make the same call
  broadcast_bytes(static_cast<std::byte*>(call.out), call.count * size_of(call.type), call.peer);
}

void ControlPlaneCommunicator::all_gather(const CollectiveCall& call) {
  auto const piece = piece_elements(ranks(), call.type);
  for (std::size_t at = 0; at < call.count; at += piece) {
    auto const bytes = std::min(piece, call.count - at) * size_of(call.type);
    auto const blobs = gather_present(at_element(call.in, at, call.type), bytes);
    for (std::size_t r = 0; r < ranks(); ++r)
      if (blobs[r])
        std::memcpy(at_element(call.out, r * call.count + at, call.type), blobs[r]->data(), bytes);
  }
}

void ControlPlaneCommunicator::all_gather_v(const CollectiveCall& call) {
  auto const present = gather_present(nullptr, 0);
  auto* share = static_cast<std::byte*>(call.out);
  for (std::size_t r = 0; r < ranks(); ++r) {
    auto const bytes = call.counts[r] * size_of(call.type);
    if (static_cast<int>(r) == rank() && call.in != share && bytes > 0) std::memcpy(share, call.in, bytes);
    if (present[r]) broadcast_bytes(share, bytes, static_cast<int>(r));
    share += bytes;
  }
}

void ControlPlaneCommunicator::reduce_scatter(const CollectiveCall& call,
                                              std::span<const std::size_t> counts) {
  auto const own = counts.begin() + rank();
  auto const begin = std::accumulate(counts.begin(), own, std::size_t{0});
  auto whole = call;
  whole.count = std::accumulate(own, counts.end(), begin);
  std::vector<std::byte> reduced(whole.count * size_of(call.type));
  reduce_in_pieces(whole, reduced.data());
  std::copy_n(at_element(reduced.data(), begin, call.type), *own * size_of(call.type),
              static_cast<std::byte*>(call.out));
}

void ControlPlaneCommunicator::all_to_all(const CollectiveCall& call) {
  auto const piece = piece_elements(ranks() * ranks(), call.type);
  for (std::size_t at = 0; at < call.count; at += piece) {
    auto const bytes = std::min(piece, call.count - at) * size_of(call.type);
    std::vector<std::byte> parts;
    for (std::size_t r = 0; r < ranks(); ++r) {
      auto const* const part = at_element(call.in, r * call.count + at, call.type);
      parts.insert(parts.end(), part, part + bytes);
    }
    auto const blobs = gather(parts.data(), parts.size());
    for (std::size_t r = 0; r < ranks(); ++r)
      std::memcpy(at_element(call.out, r * call.count + at, call.type),
                  blobs[r].data() + static_cast<std::size_t>(rank()) * bytes, bytes);
  }
}

// Each rank in turn sends every rank all of its slices.
void ControlPlaneCommunicator::all_to_all_v(const CollectiveCall& call) {
  auto const blobs = gather(call.counts.data(), call.counts.size_bytes());
  std::vector<std::size_t> counts(ranks() * ranks());  // what rank r sends to rank s, at r * ranks() + s
  std::vector<std::uint64_t> to_this_rank;
  auto const own = static_cast<std::size_t>(rank());
  for (std::size_t r = 0; r < ranks(); ++r) {
    std::memcpy(&counts[r * ranks()], blobs[r].data(), call.counts.size_bytes());
    to_this_rank.push_back(counts[r * ranks() + own]);
  }
  group_.require_recv_counts(to_this_rank, call.recv_counts);
  auto* to = static_cast<std::byte*>(call.out);
  for (std::size_t r = 0; r < ranks(); ++r) {
    std::span const slices(&counts[r * ranks()], ranks());
    auto const begin = std::reduce(slices.begin(), slices.begin() + rank());
    std::vector<std::byte> all(std::reduce(slices.begin(), slices.end()) * size_of(call.type));
    if (r == own && !all.empty()) std::memcpy(all.data(), call.in, all.size());
    broadcast_bytes(all.data(), all.size(), static_cast<int>(r));
    auto const bytes = slices[own] * size_of(call.type);
    if (bytes > 0) std::memcpy(to, at_element(all.data(), begin, call.type), bytes);
    to += bytes;
  }
}

std::shared_ptr<CommunicatorBackend> ControlPlaneCommunicator::split(int color, int key) {
  require_open();
  wait_for_started();
  return std::make_shared<ControlPlaneCommunicator>(group_.split(color, key));
}

}  // namespace muster::detail
