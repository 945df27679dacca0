// SPDX-License-Identifier: Apache-2.0
// What a job description may have: its keys, their types and their limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::render {

enum class Kind {
  text,
  count,  ///< a whole number
  flag,   ///< true or false
  texts,  ///< a list of texts
  lines,  ///< a text, or a list of texts
};

struct Key {
  std::string_view name;
  Kind kind;
  std::int64_t least = 0, most = 0;  ///< of a count
};

/// A key by its dotted name; nullopt if there is none.
std::optional<Key> find_key(std::string_view name);

/// True for "slurm" and other tables.
bool is_table(std::string_view name);

/// "a whole number from 1 to 65536", for errors.
std::string expected(const Key& key);

/// The keys of a table ("": those outside of tables), as "name, nodes, ...".
std::string known_keys(std::string_view table);

}  // namespace muster::render
