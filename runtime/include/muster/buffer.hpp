// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <ranges>
#include <span>
#include <type_traits>

#include "muster/types.hpp"

/// How Communicator takes its arguments. Not for programs.
namespace muster::detail {

template <typename Memory>
concept MemoryRange = std::ranges::contiguous_range<Memory&> && std::ranges::sized_range<Memory&>;

/// The element type of a range, or the type of a variable.
template <typename Memory>
struct ElementOf : std::remove_const<Memory> {};
template <MemoryRange Memory>
struct ElementOf<Memory> : std::type_identity<std::ranges::range_value_t<Memory&>> {};

/// A buffer's elements. `Argument` is what an operation deduces for its parameter Argument&&.
template <typename Argument>
auto elements(std::remove_reference_t<Argument>& buffer) {
  using Memory = std::remove_reference_t<Argument>;
  constexpr bool is_element = Element<typename ElementOf<Memory>::type>;
  static_assert(is_element,
                "a buffer is a std::span, std::vector, std::array, array or variable of an element type of "
                "communicators: float, double, muster::bfloat16, muster::half, or an integer of 8 to 64 bits "
                "(not bool or char)");
  static_assert(std::is_lvalue_reference_v<Argument> || std::ranges::borrowed_range<Memory>,
                "a temporary cannot be a buffer: the memory of a buffer must last until the operation ends");
  if constexpr (!is_element) {
    return std::span<float>();  // so that the message above is the only one
  } else if constexpr (MemoryRange<Memory>) {
    return std::span(std::ranges::data(buffer), std::ranges::size(buffer));
  } else {
    return std::span(std::addressof(buffer), 1);
  }
}

/// The elements of a buffer that an operation writes.
template <typename Argument>
auto result_elements(std::remove_reference_t<Argument>& buffer) {
  auto const all = elements<Argument>(buffer);
  using T = typename decltype(all)::element_type;
  static_assert(!std::is_const_v<T>, "the operation writes to this buffer, so it cannot be const");
  return std::span(const_cast<std::remove_const_t<T>*>(all.data()), all.size());
}

template <typename T>
struct BufferPair {
  std::span<const T> in;
  std::span<T> out;
};

/// The elements of the buffer that an operation reads, and of the one that it writes.
template <typename In, typename Out>
auto in_and_out(std::remove_reference_t<In>& in, std::remove_reference_t<Out>& out) {
  auto const from = elements<In>(in);
  auto const to = result_elements<Out>(out);
  using T = typename decltype(to)::element_type;
  constexpr bool is_same = std::is_same_v<std::remove_const_t<typename decltype(from)::element_type>, T>;
  static_assert(is_same, "the two buffers of an operation have the same element type");
  if constexpr (is_same) {
    return BufferPair<T>{from, to};
  } else {
    return BufferPair<T>{to, to};
  }
}

/// The DataType of a span's elements.
template <typename T>
constexpr DataType type_of(const std::span<T>& /*elements*/) {
  return DataTypeOf<std::remove_const_t<T>>::value;
}

}  // namespace muster::detail
