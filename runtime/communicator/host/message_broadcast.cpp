// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/message_broadcast.hpp"

#include <algorithm>
#include <bit>

namespace muster::detail {
namespace {

// Up to this size the number of steps counts, above it the bytes that a rank sends.
constexpr std::size_t tree_bytes = 256u << 10;
constexpr std::size_t chain_piece_bytes = 256u << 10;

}  // namespace

void MessageBroadcast::broadcast(void* data, std::size_t bytes, int root) {
  if (bytes <= tree_bytes || ranks_ == 2) return along_tree(data, bytes, root);
  along_chain(static_cast<std::byte*>(data), bytes, root);
}

// The rank at a place has its data from the place without the lowest set bit. It sends to the places with one
// more bit, below its lowest one. The largest subtree comes first.
void MessageBroadcast::along_tree(void* data, std::size_t bytes, int root) {
  auto const own = static_cast<unsigned>(place(root));
  auto const lowest = own == 0 ? std::bit_ceil(static_cast<unsigned>(ranks_)) : own & (~own + 1);
  if (own != 0) {
    messages_.begin_recv(data, bytes, rank_at(static_cast<int>(own - lowest), root), sent_);
    messages_.wait(sent_);
  }
  for (unsigned bit = lowest / 2; bit > 0; bit /= 2) {
    auto const child = static_cast<int>(own + bit);
    if (child < ranks_) messages_.begin_send(data, bytes, rank_at(child, root), sent_);
  }
  messages_.wait(sent_);
}

// A rank sends a piece while it receives the next one.
void MessageBroadcast::along_chain(std::byte* data, std::size_t bytes, int root) {
  int const own = place(root);
  bool const receives = own > 0;
  bool const sends = own + 1 < ranks_;
  auto const length = [&](std::size_t at) { return std::min(chain_piece_bytes, bytes - at); };
  auto const start = [&](std::size_t at) {
    messages_.begin_recv(data + at, length(at), rank_at(own - 1, root),
                         received_[at / chain_piece_bytes % 2]);
  };
  if (receives) start(0);
  for (std::size_t at = 0; at < bytes; at += chain_piece_bytes) {
    if (receives && at + chain_piece_bytes < bytes) start(at + chain_piece_bytes);
    if (receives) messages_.wait(received_[at / chain_piece_bytes % 2]);
    if (sends) messages_.begin_send(data + at, length(at), rank_at(own + 1, root), sent_);
  }
  messages_.wait(sent_);
}

}  // namespace muster::detail
