// SPDX-License-Identifier: Apache-2.0
#include "cpu_set/cpu_set.hpp"

#include <bit>
#include <stdexcept>

#include "text/parse_number.hpp"

namespace muster {

namespace {

constexpr int word_bits = 64;

std::string_view strip(std::string_view text) {
  constexpr std::string_view space = " \t\r\n";
  const auto first = text.find_first_not_of(space);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(space) - first + 1);
}

std::optional<unsigned> number(std::string_view text) { return parse_number<unsigned>(strip(text)); }

bool add_item(CpuSet& set, std::string_view item) {
  std::string_view span = item;
  unsigned stride = 1;
  if (const auto colon = item.find(':'); colon != std::string_view::npos) {
    stride = number(item.substr(colon + 1)).value_or(0);
    span = item.substr(0, colon);
  }
  const auto dash = span.find('-');
  const auto first = number(span.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number(span.substr(dash + 1));
  if (stride < 1 || !first || !last || *last < *first || *last >= static_cast<unsigned>(CpuSet::limit))
    return false;
  // The loop variable is a long: a stride near the largest int must not overflow it.
  for (long cpu = *first; cpu <= *last; cpu += stride) set.add(static_cast<int>(cpu));
  return true;
}

}  // namespace

CpuSet::CpuSet(std::initializer_list<int> cpus) {
  for (const int cpu : cpus) add(cpu);
}

std::optional<CpuSet> CpuSet::parse_list(std::string_view text) {
  CpuSet set;
  std::string_view rest = strip(text);
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    if (!add_item(set, rest.substr(0, comma))) return std::nullopt;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) return std::nullopt;
  }
  return set;
}

std::optional<CpuSet> CpuSet::parse_mask(std::string_view text) {
  CpuSet set;
  int position = 0;  // of the lowest bit of the group being read, from the right
  std::string_view rest = strip(text);
  while (true) {
    const auto comma = rest.rfind(',');
    std::string_view group = comma == std::string_view::npos ? rest : rest.substr(comma + 1);
    if (group.starts_with("0x") || group.starts_with("0X")) group.remove_prefix(2);
    const auto value = parse_number<std::uint32_t>(group, 16);
    if (!value || group.size() > 8 || position >= limit) return std::nullopt;
    for (auto bits = *value; bits != 0; bits &= bits - 1) set.add(position + std::countr_zero(bits));
    if (comma == std::string_view::npos) break;
    position += 32;
    rest = rest.substr(0, comma);
  }
  return set;
}

std::string CpuSet::to_list() const {
  std::string list;
  for (int first = this->first(); first >= 0;) {
    int last = first;
    while (contains(last + 1)) ++last;
    if (!list.empty()) list += ',';
    list += std::to_string(first);
    if (last > first) list += '-' + std::to_string(last);
    first = next(last);
  }
  return list;
}

std::string CpuSet::to_short_list() const {
  std::string list;
  for (int first = this->first(); first >= 0;) {
    const int step = next(first) - first;  // negative: there is no next one
    int last = first;
    int count = 1;
    while (step > 0 && next(last) == last + step) {
      last += step;
      ++count;
    }
    if (step > 1 && (count < 3 || contains(last + 1))) {  // too few, or the last begins a range
      count = 1;
      last = first;
    }
    if (!list.empty()) list += ',';
    list += std::to_string(first);
    if (count > 1) list += '-' + std::to_string(last);
    if (count > 1 && step > 1) list += ':' + std::to_string(step);
    first = next(last);
  }
  return list;
}

void CpuSet::add(int cpu) {
  if (cpu < 0 || cpu >= limit) {
    throw std::out_of_range("CPU number " + std::to_string(cpu) + " is outside 0 to " +
                            std::to_string(limit - 1) + ".");
  }
  const auto word = static_cast<std::size_t>(cpu / word_bits);
  if (word >= words_.size()) words_.resize(word + 1);
  words_[word] |= std::uint64_t{1} << (cpu % word_bits);
}

void CpuSet::remove(int cpu) {
  if (!contains(cpu)) return;
  words_[static_cast<std::size_t>(cpu / word_bits)] &= ~(std::uint64_t{1} << (cpu % word_bits));
  trim();
}

bool CpuSet::contains(int cpu) const {
  if (cpu < 0) return false;
  const auto word = static_cast<std::size_t>(cpu / word_bits);
  return word < words_.size() && (words_[word] >> (cpu % word_bits) & 1) != 0;
}

bool CpuSet::empty() const { return words_.empty(); }

int CpuSet::size() const {
  int count = 0;
  for (const auto word : words_) count += std::popcount(word);
  return count;
}

int CpuSet::first() const { return next(-1); }

int CpuSet::next(int cpu) const {
  const int start = cpu + 1;
  for (auto word = static_cast<std::size_t>(start / word_bits); word < words_.size(); ++word) {
    std::uint64_t bits = words_[word];
    if (word == static_cast<std::size_t>(start / word_bits)) bits &= ~std::uint64_t{0} << (start % word_bits);
    if (bits != 0) return static_cast<int>(word) * word_bits + std::countr_zero(bits);
  }
  return -1;
}

bool CpuSet::intersects(const CpuSet& other) const {
  for (std::size_t word = 0; word < words_.size() && word < other.words_.size(); ++word) {
    if ((words_[word] & other.words_[word]) != 0) return true;
  }
  return false;
}

bool CpuSet::is_subset_of(const CpuSet& other) const { return (*this - other).empty(); }

std::vector<int> CpuSet::to_vector() const {
  std::vector<int> cpus;
  for (int cpu = first(); cpu >= 0; cpu = next(cpu)) cpus.push_back(cpu);
  return cpus;
}

CpuSet& CpuSet::operator|=(const CpuSet& other) {
  if (other.words_.size() > words_.size()) words_.resize(other.words_.size());
  for (std::size_t word = 0; word < other.words_.size(); ++word) words_[word] |= other.words_[word];
  return *this;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) {
  if (words_.size() > other.words_.size()) words_.resize(other.words_.size());
  for (std::size_t word = 0; word < words_.size(); ++word) words_[word] &= other.words_[word];
  trim();
  return *this;
}

CpuSet& CpuSet::operator-=(const CpuSet& other) {
  for (std::size_t word = 0; word < words_.size() && word < other.words_.size(); ++word) {
    words_[word] &= ~other.words_[word];
  }
  trim();
  return *this;
}

void CpuSet::trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

}  // namespace muster
