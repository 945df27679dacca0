// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "files/parse_json.hpp"
#include "tokenizer/tokenizer_file.hpp"

using namespace muster;
using nlohmann::json;

TEST_CASE("only arrays and objects outside of texts count as nested", "[files]") {
  CHECK_FALSE(is_nested_deeper("", 0));
  CHECK_FALSE(is_nested_deeper("[[],[]]", 2));
  CHECK(is_nested_deeper("[[],[]]", 1));
  CHECK(is_nested_deeper(R"({"a":[{}]})", 2));
  CHECK_FALSE(is_nested_deeper(R"(["[[", "\"[[", "\\", "{{"])", 1));
  CHECK(is_nested_deeper(R"(["\\", []])", 1));
}

TEST_CASE("JSON that is no JSON, or too deep for its values to be copied, is refused", "[files]") {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK(parse_json<json>(nested(64)).is_array());
  CHECK_THROWS_WITH(parse_json<json>(nested(65)), "its JSON is nested more than 64 deep");
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("{}\0", 3), std::string("{}x")})
    CHECK_THROWS_WITH(parse_json<json>(text), "it is not valid JSON");
  CHECK_THROWS_WITH(tokenizer::parse_tokenizer_file(R"({"truncation":)" + nested(200'000) + "}"),
                    "its JSON is nested more than 64 deep");
}
