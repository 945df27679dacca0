// SPDX-License-Identifier: Apache-2.0
#include "muster/communicator.hpp"

#include <fmt/format.h>

#include "communicator/collectives.hpp"

namespace muster {

Communicator::Communicator(std::shared_ptr<detail::Collectives> collectives)
    : collectives_(std::move(collectives)) {}

int Communicator::rank() const noexcept { return collectives_->rank(); }
int Communicator::size() const noexcept { return collectives_->size(); }
const char* Communicator::backend() const noexcept { return collectives_->backend(); }

void Communicator::barrier(Stream stream) { collectives_->barrier(stream); }
void Communicator::synchronize(Stream stream) { collectives_->synchronize(stream); }

Communicator Communicator::split(int color, int key) const {
  if (color < 0) throw Error(Fault::usage, fmt::format("split: color {} is negative", color));
  return Communicator(collectives_->split(color, key));
}

void Communicator::all_reduce_bytes(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                                    Stream stream) {
  if (count > 0) collectives_->all_reduce(in, out, count, type, op, stream);
}

void Communicator::broadcast_bytes(void* buffer, std::size_t count, DataType type, int root, Stream stream) {
  require_rank(root, "broadcast");
  if (count > 0) collectives_->broadcast(buffer, count, type, root, stream);
}

void Communicator::all_gather_bytes(const void* in, void* out, std::size_t count, DataType type,
                                    Stream stream) {
  if (count > 0) collectives_->all_gather(in, out, count, type, stream);
}

void Communicator::reduce_scatter_bytes(const void* in, void* out, std::size_t count, DataType type,
                                        Reduction op, Stream stream) {
  if (count > 0) collectives_->reduce_scatter(in, out, count, type, op, stream);
}

void Communicator::send_bytes(const void* buffer, std::size_t count, DataType type, int to, Stream stream) {
  require_rank(to, "send");
  if (to == rank()) throw Error(Fault::usage, fmt::format("send: rank {} cannot send to itself", to));
  if (count > 0) collectives_->send(buffer, count, type, to, stream);
}

void Communicator::recv_bytes(void* buffer, std::size_t count, DataType type, int from, Stream stream) {
  require_rank(from, "recv");
  if (from == rank())
    throw Error(Fault::usage, fmt::format("recv: rank {} cannot receive from itself", from));
  if (count > 0) collectives_->recv(buffer, count, type, from, stream);
}

void Communicator::require_factor(std::size_t mine, std::size_t all, const char* operation) const {
  auto const ranks = static_cast<std::size_t>(size());
  if (all / ranks == mine && all % ranks == 0) return;
  throw Error(Fault::usage,
              fmt::format("{}: {} elements for {} ranks of {} elements each", operation, all, ranks, mine));
}

void Communicator::require_rank(int rank, const char* operation) const {
  if (rank >= 0 && rank < size()) return;
  throw Error(Fault::usage, fmt::format("{}: rank {} is not in 0 … {}", operation, rank, size() - 1));
}

}  // namespace muster
