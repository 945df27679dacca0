// SPDX-License-Identifier: Apache-2.0
#include "muster/state.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "communicator/backend.hpp"
#include "hash/fnv1a.hpp"

namespace muster {
namespace {

// Longer parts are sent separately, because copying them into the packed message would cost more.
constexpr std::size_t small_bytes = 64 * 1024;

struct Buffer {
  std::byte* data;
  std::size_t bytes;
};

// Sends the small buffers in one message, the others in place.
void broadcast_buffers(Communicator& world, const std::vector<Buffer>& buffers) {
  std::vector<std::byte> packed;
  for (const auto& buffer : buffers)
    if (buffer.bytes < small_bytes) packed.insert(packed.end(), buffer.data, buffer.data + buffer.bytes);
  auto const as_bytes = [](void* data, std::size_t bytes) {
    return std::span<std::uint8_t>(static_cast<std::uint8_t*>(data), bytes);
  };
  world.broadcast(as_bytes(packed.data(), packed.size()), 0);
  const std::byte* next = packed.data();
  for (const auto& buffer : buffers) {
    if (buffer.bytes < small_bytes) {
      if (buffer.bytes > 0) std::memcpy(buffer.data, next, buffer.bytes);
      next += buffer.bytes;
    } else {
      world.broadcast(as_bytes(buffer.data, buffer.bytes), 0);
    }
  }
}

}  // namespace

State& State::add(std::string& text) {
  return add_sized([&text] { return text.size(); },
                   [&text](std::size_t bytes) {
                     text.resize(bytes);
                     return static_cast<void*>(text.data());
                   },
                   1);
}

State& State::add_memory(void* data, std::size_t bytes) {
  parts_.push_back({data, bytes, true, {}, {}});
  return *this;
}

State& State::add_value(void* data, std::size_t bytes) {
  parts_.push_back({data, bytes, false, {}, {}});
  return *this;
}

State& State::add_sized(std::function<std::size_t()> size, std::function<void*(std::size_t)> resized,
                        std::size_t element) {
  parts_.push_back({nullptr, element, false, std::move(size), std::move(resized)});
  return *this;
}

void broadcast_state(const Communicator& communicator, const State& state, Stream stream) {
  Communicator world = communicator;
  bool const on_gpu = std::string_view(world.backend()) == "nccl";
  std::uint64_t shape = fnv1a_basis;
  for (const auto& part : state.parts_) {
    for (const std::uint64_t word : {std::uint64_t{part.bytes}, std::uint64_t{part.size != nullptr}})
      shape = fnv1a_add(shape, word);
    if (on_gpu && !part.is_memory) {
      throw Error(
          ErrorCode::usage,
          "broadcast_state: on an NCCL communicator every part is GPU memory: send counters, texts and "
          "vectors over the job's host_world()");
    }
  }
  auto const shapes =
      communicator.collectives_->host_all_gather("broadcast_state", {state.parts_.size(), shape});
  for (std::size_t r = 1; r < shapes.size(); ++r) {
    if (shapes[r] != shapes[0]) {
      throw Error(ErrorCode::usage, fmt::format("broadcast_state: rank {} has other parts than rank 0", r),
                  world.rank() != 0);
    }
  }
  if (on_gpu) {
    return world.grouped([&] {
      for (const auto& part : state.parts_)
        world.broadcast(std::span<std::uint8_t>(static_cast<std::uint8_t*>(part.data), part.bytes), 0,
                        stream);
    });
  }
  std::vector<std::uint64_t> lengths;
  for (const auto& part : state.parts_)
    if (part.size) lengths.push_back(part.size());
  world.broadcast(std::span<std::uint64_t>(lengths), 0);
  std::vector<Buffer> buffers;
  auto next = lengths.begin();
  for (const auto& part : state.parts_) {
    auto const bytes = part.size ? static_cast<std::size_t>(*next++) : part.bytes;
    buffers.push_back({static_cast<std::byte*>(part.size ? part.resized(bytes) : part.data), bytes});
  }
  broadcast_buffers(world, buffers);
}

}  // namespace muster
