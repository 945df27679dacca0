// SPDX-License-Identifier: Apache-2.0
#include "picture_sets/tar_members.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "muster/error.hpp"
#include "text/parse_number.hpp"
#include "text/printable.hpp"

namespace muster::picture_sets {
namespace {

constexpr std::uint64_t block = 512;

/// A field of a header.
struct Field {
  std::size_t at, size;
};
constexpr Field name_field{0, 100}, size_field{124, 12}, checksum_field{148, 8}, magic_field{257, 8},
    prefix_field{345, 155};
constexpr std::size_t type_field = 156;

std::string_view field_bytes(std::span<const std::uint8_t> header, const Field& field) {
  return {reinterpret_cast<const char*>(header.data()) + field.at, field.size};
}

/// Up to the first zero byte.
std::string_view field_text(std::span<const std::uint8_t> header, const Field& field) {
  const std::string_view bytes = field_bytes(header, field);
  return bytes.substr(0, bytes.find('\0'));
}

/// An octal number between blanks, or a binary one, which the highest bit of its first byte marks.
std::optional<std::uint64_t> parse_field(std::span<const std::uint8_t> header, const Field& field) {
  const auto bytes = header.subspan(field.at, field.size);
  if ((bytes[0] & 0x80) != 0) {
    std::uint64_t number = bytes[0] & 0x7f;
    for (std::size_t i = 1; i < bytes.size(); ++i) {
      if (number >> 55 != 0) return std::nullopt;
      number = number << 8 | bytes[i];
    }
    return number;
  }
  std::string_view text = field_text(header, field);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find(' '));
  return text.empty() ? 0 : parse_number<std::uint64_t>(text, 8);
}

class TarReader {
 public:
  TarReader(std::span<const std::uint8_t> content, const std::filesystem::path& path)
      : content_(content), path_(path) {}

  std::vector<TarMember> list() {
    if (content_.size() < block) refuse("it is shorter than a tar archive");
    while (at_ + block <= content_.size()) {
      const auto header = content_.subspan(at_, block);
      if (std::all_of(header.begin(), header.end(), [](std::uint8_t byte) { return byte == 0; }))
        return std::move(members_);
      read_member(header);
    }
    refuse("there is neither a header nor the block of zeros that ends an archive: it is truncated");
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::usage, printable(fmt::format("cannot read the tar archive {}: at byte {} {}",
                                                        path_.string(), at_, why)));
  }

  void read_member(std::span<const std::uint8_t> header) {
    check_sum(header);
    const char type = static_cast<char>(header[type_field]);
    const auto stored = parse_field(header, size_field);
    if (!stored) refuse("the size is no number");
    const bool is_file = type == '0' || type == '\0' || type == '7';
    const std::uint64_t bytes = is_file && next_bytes_ ? *next_bytes_ : *stored;
    const std::uint64_t offset = at_ + block;
    if (bytes > content_.size() - offset) refuse("a file ends behind the archive's end: it is truncated");
    const std::string_view data{reinterpret_cast<const char*>(content_.data()) + offset, bytes};
    if (type == 'x') {
      read_pax(data);
    } else if (type == 'L') {
      next_name_ = data.substr(0, data.find('\0'));
    } else if (type == 'S') {
      refuse("there is a sparse file");
    } else if (type != 'g' && type != 'K') {
      if (is_file) members_.push_back({next_name_ ? *next_name_ : name_of(header), offset, bytes});
      next_name_.reset();
      next_bytes_.reset();
    }
    at_ = std::min<std::uint64_t>(offset + (bytes + block - 1) / block * block, content_.size());
  }

  /// The sum of the header's bytes, with blanks for the sum itself.
  void check_sum(std::span<const std::uint8_t> header) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < block; ++i) {
      const bool is_sum = i >= checksum_field.at && i < checksum_field.at + checksum_field.size;
      sum += is_sum ? ' ' : header[i];
    }
    if (parse_field(header, checksum_field) != sum) refuse("there is no header with a right checksum");
  }

  static std::string name_of(std::span<const std::uint8_t> header) {
    std::string name(field_text(header, name_field));
    const std::string_view prefix = field_text(header, prefix_field);
    // GNU tar's own headers ("ustar  ") have other things there.
    const bool has_prefix = field_bytes(header, magic_field).substr(0, 6) == std::string_view("ustar\0", 6);
    return has_prefix && !prefix.empty() ? fmt::format("{}/{}", prefix, name) : name;
  }

  /// Records "LENGTH KEY=VALUE\n", where LENGTH counts the whole record.
  void read_pax(std::string_view records) {
    while (!records.empty()) {
      const std::size_t blank = records.find(' ');
      const auto length = parse_number<std::size_t>(records.substr(0, std::min(blank, records.size())));
      const bool fits = blank != std::string_view::npos && length && *length > blank + 1 &&
                        *length <= records.size() && records[*length - 1] == '\n';
      if (!fits) refuse("an extended header is damaged");
      const std::string_view record = records.substr(blank + 1, *length - blank - 2);
      const std::size_t equals = record.find('=');
      if (equals == std::string_view::npos) refuse("an extended header is damaged");
      keep_pax(record.substr(0, equals), record.substr(equals + 1));
      records.remove_prefix(*length);
    }
  }

  void keep_pax(std::string_view key, std::string_view value) {
    if (key == "path") next_name_ = value;
    if (key.starts_with("GNU.sparse.")) refuse("there is a sparse file");
    if (key != "size") return;
    next_bytes_ = parse_number<std::uint64_t>(value);
    if (!next_bytes_) refuse("an extended header is damaged");
  }

  std::span<const std::uint8_t> content_;
  const std::filesystem::path& path_;
  std::uint64_t at_ = 0;
  std::optional<std::string> next_name_;
  std::optional<std::uint64_t> next_bytes_;
  std::vector<TarMember> members_;
};

}  // namespace

std::vector<TarMember> list_tar_members(std::span<const std::uint8_t> content,
                                        const std::filesystem::path& path) {
  return TarReader(content, path).list();
}

}  // namespace muster::picture_sets
