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
    std::string text;  // the text that is sent
  };
  muster::State parts;
  std::deque<Sized> sized;  // `parts` refers to their texts
};

namespace {

using muster::Error;
using muster::ErrorCode;
using muster::c::call;
using muster::c::require_not_null;

void copy_from_program(muster_state& state) {
  for (auto& [data, bytes, text] : state.sized) {
    if (*data == nullptr && *bytes > 0)
      throw Error(ErrorCode::usage, "muster_broadcast_state: a sized part is null and has a length");
    text.assign(static_cast<const char*>(*data), *bytes);
  }
}

void copy_to_program(muster_state& state) {
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
    require_not_null(state, "muster_state_new", "place for the state") = nullptr;
    *state = new muster_state;
  });
}

int muster_state_add(muster_state* state, void* data, size_t bytes) {
  return call([&] {
    auto& its = require_not_null(state, "muster_state_add", "state");
    if (bytes > 0) (void)require_not_null(static_cast<std::uint8_t*>(data), "muster_state_add", "part");
    its.parts.add(std::span<std::uint8_t>(static_cast<std::uint8_t*>(data), bytes));
  });
}

int muster_state_add_sized(muster_state* state, void** data, size_t* bytes) {
  return call([&] {
    auto& its = require_not_null(state, "muster_state_add_sized", "state");
    its.sized.push_back({&require_not_null(data, "muster_state_add_sized", "place of the part"),
                         &require_not_null(bytes, "muster_state_add_sized", "place of its length"),
                         {}});
    its.parts.add(its.sized.back().text);
  });
}

void muster_state_free(muster_state* state) { delete state; }

int muster_broadcast_state(muster_communicator* communicator, muster_state* state, void* stream) {
  return call([&] {
    auto const& its = require_not_null(communicator, "muster_broadcast_state", "communicator").communicator;
    auto& whole = require_not_null(state, "muster_broadcast_state", "state");
    if (its.rank() == 0) copy_from_program(whole);
    muster::broadcast_state(its, whole.parts, muster::Stream(stream));
    if (its.rank() != 0) copy_to_program(whole);
  });
}
