// SPDX-License-Identifier: Apache-2.0
#include "muster/state.hpp"

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <span>
#include <string>

#include "c/call.hpp"

struct muster_state {
  struct Sized {
    void** data;
    std::size_t* bytes;
    std::string text;  // what travels
  };
  muster::State parts;
  std::deque<Sized> sized;  // whose texts `parts` refers to
};

namespace {

using muster::Error;
using muster::ErrorCode;
using muster::c::call;
using muster::c::required;

void take_from_program(muster_state& state) {
  for (auto& [data, bytes, text] : state.sized) {
    if (*data == nullptr && *bytes > 0)
      throw Error(ErrorCode::usage, "muster_broadcast_state: a sized part is null and has a length");
    text.assign(static_cast<const char*>(*data), *bytes);
  }
}

void give_to_program(muster_state& state) {
  for (auto& [data, bytes, text] : state.sized) {
    void* const room = std::realloc(*data, text.size() + 1);
    if (room == nullptr) throw std::bad_alloc();
    *data = room;
    *bytes = text.size();
    std::memcpy(room, text.c_str(), text.size() + 1);
    text = {};
  }
}

}  // namespace

int muster_state_new(muster_state** state) {
  return call([&] {
    required(state, "muster_state_new", "place for the state") = nullptr;
    *state = new muster_state;
  });
}

int muster_state_add(muster_state* state, void* data, size_t bytes) {
  return call([&] {
    auto& its = required(state, "muster_state_add", "state");
    if (bytes > 0) (void)required(static_cast<std::uint8_t*>(data), "muster_state_add", "part");
    its.parts.add(std::span<std::uint8_t>(static_cast<std::uint8_t*>(data), bytes));
  });
}

int muster_state_add_sized(muster_state* state, void** data, size_t* bytes) {
  return call([&] {
    auto& its = required(state, "muster_state_add_sized", "state");
    its.sized.push_back({&required(data, "muster_state_add_sized", "place of the part"),
                         &required(bytes, "muster_state_add_sized", "place of its length"),
                         {}});
    its.parts.add(its.sized.back().text);
  });
}

void muster_state_free(muster_state* state) { delete state; }

int muster_broadcast_state(muster_communicator* communicator, muster_state* state, void* stream) {
  return call([&] {
    auto const& its = required(communicator, "muster_broadcast_state", "communicator").communicator;
    auto& whole = required(state, "muster_broadcast_state", "state");
    if (its.rank() == 0) take_from_program(whole);
    muster::broadcast_state(its, whole.parts, muster::Stream(stream));
    if (its.rank() != 0) give_to_program(whole);
  });
}
