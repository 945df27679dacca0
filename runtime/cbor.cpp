// SPDX-License-Identifier: Apache-2.0
#include "cbor.hpp"

#include "muster/error.hpp"

namespace muster {
namespace {

using nlohmann::json;

// The library's CBOR reader recurses per nesting level, so malicious bytes could exhaust the stack. This
// handler counts the levels first and stops the reader at the limit; it stores nothing.
class DepthGuard : public nlohmann::json_sax<json> {
 public:
  explicit DepthGuard(int limit) : left_(limit) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return left_-- > 0; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return ++left_, true; }
  bool start_array(std::size_t) override { return left_-- > 0; }
  bool end_array() override { return ++left_, true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  int left_;
};

}  // namespace

json read_cbor(std::span<const std::uint8_t> bytes, const std::string& what, int max_depth) {
  DepthGuard guard(max_depth);
  try {
    if (!json::sax_parse(bytes.begin(), bytes.end(), &guard, json::input_format_t::cbor, true)) {
      throw Error(ErrorCode::system, what + " is not what a rank of this version writes");
    }
    return json::from_cbor(bytes.begin(), bytes.end(), true, true);
  } catch (const json::exception&) {
    throw Error(ErrorCode::system, what + " is not what a rank of this version writes");
  }
}

std::vector<std::uint8_t> write_cbor(const json& value) { return json::to_cbor(value); }

}  // namespace muster
