// SPDX-License-Identifier: Apache-2.0
// Test vectors of the checksum. Frames and wire format are read by code that shares nothing with the writer.
#include <cstring>
#include <map>

#include "catch.hpp"
#include "content.hpp"
#include "files/crc32c.hpp"
#include "muster/error.hpp"
#include "report/event_file.hpp"
#include "temporary_folder.hpp"

using namespace muster;

namespace {

std::uint64_t integer(const std::string& bytes, std::size_t at, int size) {
  std::uint64_t value = 0;
  for (int i = size - 1; i >= 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes.at(at + static_cast<std::size_t>(i)));
  return value;
}

/// Bit by bit, as the polynomial defines it.
std::uint32_t slow_masked_crc(const std::string& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78 : crc >> 1;
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

std::vector<std::string> frames(const std::string& file) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < file.size();) {
    const auto length = static_cast<std::size_t>(integer(file, at, 8));
    REQUIRE(integer(file, at + 8, 4) == slow_masked_crc(file.substr(at, 8)));
    out.push_back(file.substr(at + 12, length));
    REQUIRE(integer(file, at + 12 + length, 4) == slow_masked_crc(out.back()));
    at += 16 + length;
  }
  return out;
}

/// Fields of a message: number → contents (varints and fixed ones as little-endian bytes).
std::multimap<int, std::string> fields(const std::string& message) {
  std::multimap<int, std::string> out;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const std::uint64_t key = varint();
    std::size_t size = 0;
    switch (key & 7) {
      case 0: {
        const std::uint64_t value = varint();
        out.emplace(static_cast<int>(key >> 3), std::string(reinterpret_cast<const char*>(&value), 8));
        continue;
      }
      case 1:
        size = 8;
        break;
      case 2:
        size = static_cast<std::size_t>(varint());
        break;
      case 5:
        size = 4;
        break;
      default:
        FAIL("wire type");
    }
    REQUIRE(at + size <= message.size());
    out.emplace(static_cast<int>(key >> 3), message.substr(at, size));
    at += size;
  }
  return out;
}

float to_float(const std::string& bytes) {
  float value = 0;
  REQUIRE(bytes.size() == 4);
  std::memcpy(&value, bytes.data(), 4);
  return value;
}

std::string only_file(const std::filesystem::path& folder) {
  std::string text;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    CHECK(entry.path().filename().string().starts_with("events.out.tfevents."));
    text = content(entry.path());
    ++count;
  }
  CHECK(count == 1);
  return text;
}

}  // namespace

TEST_CASE("CRC32C has the values of RFC 3720, appendix B.4", "[events]") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  std::string rising, falling;
  for (char i = 0; i < 32; ++i) rising += i, falling += static_cast<char>(31 - i);
  CHECK(crc32c(rising) == 0x46dd794e);
  CHECK(crc32c(falling) == 0x113fdb5c);
  CHECK(masked_crc32c("123456789") == slow_masked_crc("123456789"));
}

TEST_CASE("event files are framed and encoded as TensorBoard reads them", "[events]") {
  const TemporaryFolder folder;
  {
    EventFile events(folder.path(), 6);
    events.training({7, 1.5, 0.001, 0.25, 100, 0.5, 0.125, 0.75});
    events.training({300, 2.5, 0.001, 0.25, 100, 0.5, 0.125, std::nullopt});
    events.validation(300, 1.25, 0.5);
    events.flush();
  }
  const auto events = frames(only_file(folder.path()));
  REQUIRE(events.size() == 5);
  CHECK(fields(events[0]).find(3)->second == "brain.Event:2");
  CHECK(integer(fields(events[1]).find(2)->second, 0, 8) == 7);
  CHECK(integer(fields(fields(events[1]).find(7)->second).find(1)->second, 0, 8) == 1);  // SessionLog.START
  std::vector<std::map<std::string, float>> scalars;
  for (std::size_t i = 2; i < events.size(); ++i) {
    const auto event = fields(events[i]);
    CHECK(integer(event.find(2)->second, 0, 8) == (i == 2 ? 7u : 300u));
    double wall = 0;
    std::memcpy(&wall, event.find(1)->second.data(), 8);
    CHECK(wall > 1.6e9);
    scalars.emplace_back();
    const auto summary = fields(event.find(5)->second);
    for (const auto& [number, value] : summary) {
      CHECK(number == 1);
      const auto parts = fields(value);
      scalars.back()[parts.find(1)->second] = to_float(parts.find(2)->second);
    }
  }
  CHECK(scalars[0] == std::map<std::string, float>{{"loss/training", 1.5f},
                                                   {"learning_rate", 0.001f},
                                                   {"gradient_norm", 0.25f},
                                                   {"tokens_per_second", 200.0f},
                                                   {"exposed_communication", 0.25f},
                                                   {"mfu", 0.75f}});
  CHECK(scalars[1].count("mfu") == 0);
  CHECK(scalars[2] ==
        std::map<std::string, float>{{"loss/validation", 1.25f}, {"accuracy/validation", 0.5f}});
}

TEST_CASE("when an event file cannot be written, an error is thrown", "[events]") {
  CHECK_THROWS_AS(EventFile("/proc/muster", 0), Error);
}
