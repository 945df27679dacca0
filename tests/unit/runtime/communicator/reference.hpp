// SPDX-License-Identifier: Apache-2.0
// The expected results of collectives, by simple sequential code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "muster/muster.hpp"

namespace reference {

using muster::bfloat16;
using muster::half;
using muster::Reduction;

// Integers so small that every partial sum is exact in every type: results must be bit-equal.
template <typename T>
std::vector<T> numbers(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(1000 * rank + 7));
  std::vector<T> values(count);
  bool const has_sign = std::is_same_v<T, bfloat16> || std::is_same_v<T, half> || std::is_signed_v<T>;
  for (auto& value : values) {
    int const drawn = static_cast<int>(random() % 16) - (has_sign ? 8 : 0);
    if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, half>) {
      value = T(static_cast<float>(drawn));
    } else {
      value = static_cast<T>(drawn);
    }
  }
  return values;
}

template <typename T>
double as_double(T value) {
  if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, half>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

template <typename T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, half>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);  // towards zero for integers
  }
}

// Factors whose products are exact in every type on up to seven ranks.
template <typename T>
std::vector<T> factors(int rank, std::size_t count) {
  auto values = numbers<T>(rank, count);
  for (auto& value : values) value = from_double<T>(as_double(value) > 4 ? 2 : 1);
  return values;
}

template <typename T>
std::vector<T> operands(int rank, std::size_t count, Reduction op) {
  return op == Reduction::product ? factors<T>(rank, count) : numbers<T>(rank, count);
}

template <typename T>
std::vector<T> reduced(int ranks, std::size_t count, Reduction op) {
  std::vector<double> result;
  for (int r = 0; r < ranks; ++r) {
    auto const values = operands<T>(r, count, op);
    if (r == 0) {
      for (T value : values) result.push_back(as_double(value));
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      double const value = as_double(values[i]);
      if (op == Reduction::min) result[i] = std::min(result[i], value);
      if (op == Reduction::max) result[i] = std::max(result[i], value);
      if (op == Reduction::product) result[i] *= value;
      if (op == Reduction::sum || op == Reduction::average) result[i] += value;
    }
  }
  std::vector<T> rounded;
  for (double value : result) {
    if (op != Reduction::average) {
      rounded.push_back(from_double<T>(value));
    } else if constexpr (std::is_same_v<T, float>) {
      rounded.push_back(static_cast<float>(value) / static_cast<float>(ranks));
    } else {
      rounded.push_back(from_double<T>(value / ranks));
    }
  }
  return rounded;
}

// The sum of every rank's numbers times 1 + rank, of floats.
template <typename T>
std::vector<T> premul_summed(int ranks, std::size_t count) {
  std::vector<double> sum(count);
  for (int r = 0; r < ranks; ++r) {
    auto const values = numbers<T>(r, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += (1 + r) * as_double(values[i]);
  }
  std::vector<T> rounded;
  for (double value : sum) rounded.push_back(from_double<T>(value));
  return rounded;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// As same_bits(), but -0 equals 0: a sum may give either.
template <typename T>
bool same_numbers(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (as_double(a[i]) != as_double(b[i])) return false;
  }
  return true;
}

constexpr Reduction all_reductions[] = {Reduction::sum, Reduction::average, Reduction::min, Reduction::max,
                                        Reduction::product};

}  // namespace reference
