// SPDX-License-Identifier: Apache-2.0
#include "report/event_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <climits>
#include <cstring>
#include <string_view>

#include "files/crc32c.hpp"
#include "muster/error.hpp"

namespace muster {
namespace {

// Protocol buffers' wire format: a key is (field << 3) | type.
// https://protobuf.dev/programming-guides/encoding
enum WireType { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
// Fields of Event, Summary, Summary.Value and SessionLog.
enum EventField { wall_time = 1, step_number = 2, file_version = 3, summary = 5, session_log = 7 };
enum ValueField { tag = 1, simple_value = 2 };
constexpr int summary_value = 1, session_status = 1, session_start = 1;

std::string little_endian(std::uint64_t value, int size) {
  std::string out;
  for (int i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

std::string encode_varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

std::string key(int field, WireType type) {
  return encode_varint(static_cast<std::uint64_t>(field) << 3 | type);
}
std::string message(int field, const std::string& content) {
  return key(field, bytes) + encode_varint(content.size()) + content;
}

std::string event_header(std::int64_t step) {
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return key(wall_time, fixed64) + little_endian(std::bit_cast<std::uint64_t>(now), 8) +
         key(step_number, varint) + encode_varint(static_cast<std::uint64_t>(step));
}

std::string scalar(std::string_view name, double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return message(summary_value,
                 message(tag, std::string(name)) + key(simple_value, fixed32) + little_endian(bits, 4));
}

std::filesystem::path event_file_path(const std::filesystem::path& folder) {
  char host[HOST_NAME_MAX + 1] = "";
  ::gethostname(host, sizeof host - 1);
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(ErrorCode::system, fmt::format("cannot create {}: {}", folder.string(), error.message()));
  return folder / fmt::format("events.out.tfevents.{:010}.{}.{}", now, host, ::getpid());
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t first_step)
    : file_(event_file_path(folder)) {
  record(event_header(0) + message(file_version, "brain.Event:2"));
  // Makes TensorBoard drop earlier events of steps from here on.
  record(event_header(first_step + 1) +
         message(session_log, key(session_status, varint) + encode_varint(session_start)));
  flush();
}

void EventFile::record(const std::string& event) {
  const std::string length = little_endian(event.size(), 8);
  file_.add(length + little_endian(masked_crc32c(length), 4) + event +
            little_endian(masked_crc32c(event), 4));
}

void EventFile::training(const StepRecord& r) {
  std::string values = scalar("loss/training", r.loss) + scalar("learning_rate", r.learning_rate) +
                       scalar("gradient_norm", r.gradient_norm) +
                       scalar("tokens_per_second", r.tokens_per_second()) +
                       scalar("exposed_communication", r.exposed_share());
  if (r.mfu) values += scalar("mfu", *r.mfu);
  record(event_header(r.step) + message(summary, values));
}

void EventFile::validation(std::int64_t step, double loss, std::optional<double> accuracy) {
  std::string values = scalar("loss/validation", loss);
  if (accuracy) values += scalar("accuracy/validation", *accuracy);
  record(event_header(step) + message(summary, values));
}

}  // namespace muster
