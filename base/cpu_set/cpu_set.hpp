// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// A set of operating system CPU numbers (also used for NUMA domain ids). A value type; not synchronised.
class CpuSet {
 public:
  /// One more than the highest accepted number. Guards against absurd input; eight times the kernel's own
  /// NR_CPUS.
  static constexpr int limit = 65536;

  CpuSet() = default;
  CpuSet(std::initializer_list<int> cpus);

  /// Reads the kernel's list format: "0-3,8", also with strides, "0-30:2" (every second). Accepts surrounding
  /// spaces and an empty text (the empty set). nullopt for any other text, and for numbers from `limit` on.
  static std::optional<CpuSet> parse_list(std::string_view text);

  /// Reads the kernel's mask format, 32 bits to a group, the highest group first: "00000000,0000000f".
  /// nullopt for any other text.
  static std::optional<CpuSet> parse_mask(std::string_view text);

  /// "0-3,8"; empty for the empty set.
  std::string to_list() const;

  /// The same for display: three or more single CPUs at equal steps are written with a stride, "0-126:2".
  /// parse_list() reads strides, many programs do not.
  std::string to_short_list() const;

  /// @throws std::out_of_range if cpu is not in 0 … limit - 1.
  void add(int cpu);
  void remove(int cpu);
  bool contains(int cpu) const;
  bool empty() const;
  int size() const;
  /// The lowest member; -1 for the empty set.
  int first() const;
  /// The lowest member above cpu; -1 if there is none. next(-1) is first().
  int next(int cpu) const;
  bool intersects(const CpuSet& other) const;
  bool is_subset_of(const CpuSet& other) const;
  /// All members in ascending order.
  std::vector<int> to_vector() const;

  CpuSet& operator|=(const CpuSet& other);
  CpuSet& operator&=(const CpuSet& other);
  CpuSet& operator-=(const CpuSet& other);
  friend CpuSet operator|(CpuSet a, const CpuSet& b) { return a |= b; }
  friend CpuSet operator&(CpuSet a, const CpuSet& b) { return a &= b; }
  friend CpuSet operator-(CpuSet a, const CpuSet& b) { return a -= b; }
  friend bool operator==(const CpuSet& a, const CpuSet& b) { return a.words_ == b.words_; }

 private:
  void trim();

  std::vector<std::uint64_t> words_;  // never ends in a zero word, so that equal sets compare equal
};

}  // namespace muster
