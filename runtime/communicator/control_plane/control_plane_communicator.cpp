// SPDX-License-Identifier: Apache-2.0
#include "communicator/control_plane/control_plane_communicator.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "communicator/host/reduce_elements.hpp"
#include "roster/roster.hpp"

namespace muster::detail {
namespace {

// Bytes of one control plane message, all ranks' parts together; the hard limit is max_frame_bytes.
constexpr std::size_t round_bytes = 2u << 20;
constexpr std::size_t max_piece_bytes = 256u << 10;

std::byte* at_element(void* buffer, std::size_t index, DataType type) {
  return static_cast<std::byte*>(buffer) + index * size_of(type);
}
const std::byte* at_element(const void* buffer, std::size_t index, DataType type) {
  return static_cast<const std::byte*>(buffer) + index * size_of(type);
}

std::string describe_buffer(std::size_t count, DataType type) {
  return fmt::format(" of {} {}", count, name_of(type));
}

const char* name_of(Reduction op) {
  switch (op) {
    case Reduction::sum:
      return ", sum";
    case Reduction::average:
      return ", average";
    case Reduction::min:
      return ", min";
    case Reduction::max:
      return ", max";
    case Reduction::product:
      return ", product";
  }
  return "";
}

// How many elements each of `parts` parts may have in one piece.
std::size_t piece_elements(std::size_t parts, DataType type) {
  return std::max<std::size_t>(1, std::min(max_piece_bytes, round_bytes / parts) / size_of(type));
}

}  // namespace

void ControlPlaneCommunicator::collective(const char* operation, const std::string& details,
                                          std::function<void()> call) {
  auto run = [this, operation, call_text = operation + details, call = std::move(call)] {
    group_.begin_operation(operation);
    call_ = call_text;
    call();
  };
  if (in_group_) {
    collectives_.emplace_back(std::move(run));
  } else {
    run();
  }
}

void ControlPlaneCommunicator::message(const char* operation, int from, int to, std::function<void()> call) {
  auto run = [this, operation, peer = from == rank() ? to : from, call = std::move(call)] {
    group_.begin_messages(operation, {&peer, 1});
    call();
  };
  if (in_group_) return messages_.push_back({from, to, std::move(run)});
  run();
}

void ControlPlaneCommunicator::interrupt() noexcept {
  interrupted_ = true;
  group_.job().plane->wake_waiters();
}

// All ranks run the calls in the same order, so that they cannot deadlock.
void ControlPlaneCommunicator::end_group() {
  auto const collectives = std::exchange(collectives_, {});
  auto messages = std::exchange(messages_, {});
  in_group_ = false;
  std::stable_sort(messages.begin(), messages.end(), [](const Message& a, const Message& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  for (const auto& call : collectives) call();
  for (const auto& message : messages) message.call();
}

void ControlPlaneCommunicator::discard_group() noexcept {
  in_group_ = false;
  collectives_.clear();
  messages_.clear();
}

// The name does not contain the operation, so that ranks in different operations meet and detect the
// mismatch.
std::string ControlPlaneCommunicator::round_name() const {
  return fmt::format("operation {} on communicator '{}'", group_.number(), group_.name());
}

std::vector<control::Blob> ControlPlaneCommunicator::gather(const void* bytes, std::size_t length) {
  auto const* const first = static_cast<const std::uint8_t*>(bytes);
  control::Blob blob(call_.begin(), call_.end());
  blob.push_back(0);
  blob.insert(blob.end(), first, first + length);
  auto blobs =
      group_.job().plane->gather(round_name(), group_.members(), blob, group_.timeout(), &interrupted_);
  check_same_call(blobs);
  for (auto& other : blobs) other.erase(other.begin(), other.begin() + static_cast<long>(call_.size() + 1));
  return blobs;
}

void ControlPlaneCommunicator::check_same_call(const std::vector<control::Blob>& blobs) {
  auto const call_in = [](const control::Blob& blob) {
    return std::string(blob.begin(), std::find(blob.begin(), blob.end(), 0));
  };
  auto const name = [&](std::size_t rank) {
    return bootstrap::describe_rank(
        group_.job().roster.at(static_cast<std::size_t>(group_.members().at(rank))));
  };
  auto const first = call_in(blobs.front());
  for (std::size_t r = 1; r < blobs.size(); ++r) {
    auto const other = call_in(blobs[r]);
    if (other == first) continue;
    group_.fail(ErrorCode::usage, fmt::format("{} called {} where {} called {}: all ranks must make the same "
                                              "calls in the same order",
                                              name(r), other, name(0), first));
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
                                       group_.timeout(), &interrupted_);
  if (blob.size() != length) {
    group_.fail(ErrorCode::usage,
                fmt::format("received {} bytes instead of {}: all ranks must make the same calls in the "
                            "same order",
                            blob.size(), length));
  }
  if (rank() != root) std::memcpy(bytes, blob.data(), length);
}

void ControlPlaneCommunicator::reduce_in_pieces(const void* in, void* out, std::size_t count, DataType type,
                                                Reduction op) {
  auto const piece = piece_elements(ranks(), type);
  for (std::size_t at = 0; at < count; at += piece) {
    auto const length = std::min(piece, count - at);
    auto const blobs = gather(at_element(in, at, type), length * size_of(type));
    if (out == nullptr) continue;
    std::vector<const void*> operands;
    for (const auto& blob : blobs) operands.push_back(blob.data());
    reduce_elements(at_element(out, at, type), operands, length, type, op, size());
  }
}

// Calls `on_part` with each rank's part for this rank, piece by piece. `count`: elements from one rank to one
// other.
void ControlPlaneCommunicator::exchange_pieces(
    const void* in, std::size_t count, DataType type,
    const std::function<void(std::size_t, std::size_t, int, const void*)>& on_part) {
  auto const piece = piece_elements(ranks() * ranks(), type);
  for (std::size_t at = 0; at < count; at += piece) {
    auto const length = std::min(piece, count - at);
    auto const bytes = length * size_of(type);
    std::vector<std::byte> parts;
    for (std::size_t r = 0; r < ranks(); ++r) {
      auto const* const part = at_element(in, r * count + at, type);
      parts.insert(parts.end(), part, part + bytes);
    }
    auto const blobs = gather(parts.data(), parts.size());
    for (std::size_t r = 0; r < ranks(); ++r)
      on_part(at, length, static_cast<int>(r), blobs[r].data() + static_cast<std::size_t>(rank()) * bytes);
  }
}

// Sender and receiver both call it: the send completes when the message is received.
void ControlPlaneCommunicator::transfer_message(void* bytes, std::size_t length, int from, int to) {
  auto const member = [this](int rank) { return group_.members().at(static_cast<std::size_t>(rank)); };
  for (std::size_t at = 0; at < length; at += round_bytes) {
    auto const piece = std::min(round_bytes, length - at);
    auto* const first = static_cast<std::uint8_t*>(bytes) + at;
    control::Blob blob;
    if (rank() == from) blob.assign(first, first + piece);
    blob = group_.job().plane->broadcast(
        fmt::format("message from rank {} to rank {} of communicator '{}'", from, to, group_.name()),
        {member(from), member(to)}, member(from), blob, group_.timeout(), &interrupted_);
    if (blob.size() != piece)
      group_.fail(ErrorCode::usage, fmt::format("received {} bytes instead of {}", blob.size(), piece));
    if (rank() == to) std::memcpy(first, blob.data(), piece);
  }
}

void ControlPlaneCommunicator::all_reduce(const void* in, void* out, std::size_t count, DataType type,
                                          Reduction op, Stream) {
  collective("all_reduce", describe_buffer(count, type) + name_of(op),
             [=, this] { reduce_in_pieces(in, out, count, type, op); });
}

void ControlPlaneCommunicator::reduce(void* buffer, std::size_t count, DataType type, Reduction op, int root,
                                      Stream) {
  collective("reduce", fmt::format("{}{}, root {}", describe_buffer(count, type), name_of(op), root),
             [=, this] { reduce_in_pieces(buffer, rank() == root ? buffer : nullptr, count, type, op); });
}

void ControlPlaneCommunicator::broadcast(void* buffer, std::size_t count, DataType type, int root, Stream) {
  collective("broadcast", fmt::format("{}, root {}", describe_buffer(count, type), root), [=, this] {
    gather(nullptr, 0);  // checks that all ranks make the same call
    for (std::size_t at = 0; at < count * size_of(type); at += round_bytes)
      broadcast_piece(static_cast<std::byte*>(buffer) + at, std::min(round_bytes, count * size_of(type) - at),
                      root);
  });
}

void ControlPlaneCommunicator::all_gather(const void* in, void* out, std::size_t count, DataType type,
                                          Stream) {
  collective("all_gather", describe_buffer(count, type), [=, this] {
    auto const piece = piece_elements(ranks(), type);
    for (std::size_t at = 0; at < count; at += piece) {
      auto const length = std::min(piece, count - at);
      auto const blobs = gather(at_element(in, at, type), length * size_of(type));
      for (std::size_t r = 0; r < ranks(); ++r)
        std::memcpy(at_element(out, r * count + at, type), blobs[r].data(), length * size_of(type));
    }
  });
}

void ControlPlaneCommunicator::all_gather_v(const void* in, void* out, std::span<const std::size_t> counts,
                                            DataType type, Stream) {
  std::vector<std::size_t> const shares(counts.begin(), counts.end());
  collective("all_gather_v", fmt::format(" of {} {}", fmt::join(shares, "+"), muster::name_of(type)),
             [=, this] {
               gather(nullptr, 0);
               std::size_t begin = 0;
               for (std::size_t r = 0; r < ranks(); ++r) {
                 auto* const share = at_element(out, begin, type);
                 auto const bytes = shares[r] * size_of(type);
                 if (static_cast<int>(r) == rank() && in != share && bytes > 0) std::memcpy(share, in, bytes);
                 for (std::size_t at = 0; at < bytes; at += round_bytes)
                   broadcast_piece(share + at, std::min(round_bytes, bytes - at), static_cast<int>(r));
                 begin += shares[r];
               }
             });
}

void ControlPlaneCommunicator::reduce_scatter(const void* in, void* out, std::size_t count, DataType type,
                                              Reduction op, Stream) {
  collective("reduce_scatter", describe_buffer(count, type) + name_of(op), [=, this] {
    std::vector<std::byte> sum(count * size_of(type));  // `out` may be a part of `in`
    std::vector<const void*> operands;
    exchange_pieces(in, count, type, [&](std::size_t at, std::size_t length, int from, const void* part) {
      operands.push_back(part);
      if (from < size() - 1) return;
      reduce_elements(at_element(sum.data(), at, type), operands, length, type, op, size());
      operands.clear();
    });
    if (count > 0) std::memcpy(out, sum.data(), sum.size());
  });
}

void ControlPlaneCommunicator::all_to_all(const void* in, void* out, std::size_t count, DataType type,
                                          Stream) {
  collective("all_to_all", describe_buffer(count, type), [=, this] {
    exchange_pieces(in, count, type, [&](std::size_t at, std::size_t length, int from, const void* part) {
      std::memcpy(at_element(out, static_cast<std::size_t>(from) * count + at, type), part,
                  length * size_of(type));
    });
  });
}

void ControlPlaneCommunicator::send(const void* buffer, std::size_t count, DataType type, int to, Stream) {
  message("send", rank(), to,
          [=, this] { transfer_message(const_cast<void*>(buffer), count * size_of(type), rank(), to); });
}

void ControlPlaneCommunicator::recv(void* buffer, std::size_t count, DataType type, int from, Stream) {
  message("recv", from, rank(), [=, this] { transfer_message(buffer, count * size_of(type), from, rank()); });
}

void ControlPlaneCommunicator::barrier(Stream) {
  collective("barrier", "", [this] { gather(nullptr, 0); });
}

std::shared_ptr<CommunicatorBackend> ControlPlaneCommunicator::split(int color, int key) {
  return std::make_shared<ControlPlaneCommunicator>(group_.split(color, key));
}

}  // namespace muster::detail
