// SPDX-License-Identifier: Apache-2.0
#include "cbor.hpp"

#include "muster/error.hpp"

namespace muster {
namespace {

using nlohmann::json;

// Builds the value in one pass. The library's CBOR reader recurses per nesting level, so malicious bytes
// could exhaust the stack: this handler stops the reader at the limit.
class ValueBuilder : public nlohmann::json_sax<json> {
 public:
  explicit ValueBuilder(int max_depth) : max_depth_(static_cast<std::size_t>(max_depth)) {}
  json take() { return std::move(root_); }

  bool null() override { return add(nullptr), true; }
  bool boolean(bool value) override { return add(value), true; }
  bool number_integer(number_integer_t value) override { return add(value), true; }
  bool number_unsigned(number_unsigned_t value) override { return add(value), true; }
  bool number_float(number_float_t value, const string_t&) override { return add(value), true; }
  bool string(string_t& value) override { return add(std::move(value)), true; }
  bool binary(binary_t& value) override { return add(json::binary(std::move(value))), true; }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool key(string_t& name) override { return key_ = std::move(name), true; }
  bool end_object() override { return open_.pop_back(), true; }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_array() override { return open_.pop_back(), true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  json& add(json value) {
    if (open_.empty()) return root_ = std::move(value);
    json& parent = *open_.back();
    if (parent.is_array()) return parent.emplace_back(std::move(value));
    return parent[key_] = std::move(value);
  }
  bool open(json value) {
    if (open_.size() == max_depth_) return false;
    open_.push_back(&add(std::move(value)));
    return true;
  }

  std::size_t max_depth_;
  json root_;
  std::vector<json*> open_;  // the arrays and objects that have begun, outermost first
  std::string key_;
};

}  // namespace

json read_cbor(std::span<const std::uint8_t> bytes, const std::string& what, int max_depth) {
  ValueBuilder builder(max_depth);
  if (!json::sax_parse(bytes.begin(), bytes.end(), &builder, json::input_format_t::cbor, true))
    throw Error(ErrorCode::system, what + " is not what a rank of this version writes");
  return builder.take();
}

std::vector<std::uint8_t> write_cbor(const json& value) { return json::to_cbor(value); }

}  // namespace muster
