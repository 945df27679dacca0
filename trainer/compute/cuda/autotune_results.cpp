// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/autotune_results.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "files/parse_json.hpp"

namespace muster::compute::cuda {

NLOHMANN_JSON_SERIALIZE_ENUM(Epilogue, {{Epilogue::none, "none"},
                                        {Epilogue::bias, "bias"},
                                        {Epilogue::bias_gelu, "bias_gelu"},
                                        {Epilogue::gelu_backward, "gelu_backward"},
                                        {Epilogue::bias_gradient, "bias_gradient"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MatmulCandidate, id, tile, stages, split_k, workspace_bytes, microseconds)

namespace {

using Json = nlohmann::json;

constexpr const char* results_format = "muster-train autotune 1";
constexpr int hex_digits = 16;

std::string to_hex(const std::array<std::uint64_t, 8>& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm) text += fmt::format("{:016x}", word);
  return text;
}

std::array<std::uint64_t, 8> from_hex(const std::string& text) {
  std::array<std::uint64_t, 8> algorithm{};
  for (std::size_t i = 0; i < algorithm.size() && text.size() == algorithm.size() * hex_digits; ++i) {
    const char* const at = text.data() + i * hex_digits;
    std::from_chars(at, at + hex_digits, algorithm[i], 16);
  }
  if (to_hex(algorithm) != text) throw std::runtime_error("an algorithm is not 128 hexadecimal digits");
  return algorithm;
}

Json shape_json(const CublasMatmulShape& s) {
  return {{"m", s.m},
          {"n", s.n},
          {"k", s.k},
          {"transpose_a", s.transpose_a},
          {"transpose_b", s.transpose_b},
          {"accumulate", s.accumulate},
          {"types", s.float_result ? "bf16 bf16 fp32" : "bf16 bf16 bf16"},
          {"epilogue", s.epilogue}};
}

Json product_json(const AutotunedMatmul& product) {
  Json json = shape_json(product.shape);
  json["separate"] = product.separate;
  json["chosen"] = product.chosen;
  json["algorithm"] = to_hex(product.algorithm);
  json["candidates"] = product.candidates;
  if (product.separate_microseconds) json["separate_microseconds"] = *product.separate_microseconds;
  return json;
}

AutotunedMatmul read_product(const Json& json) {
  AutotunedMatmul product;
  CublasMatmulShape& s = product.shape;
  json.at("m").get_to(s.m);
  json.at("n").get_to(s.n);
  json.at("k").get_to(s.k);
  json.at("transpose_a").get_to(s.transpose_a);
  json.at("transpose_b").get_to(s.transpose_b);
  json.at("accumulate").get_to(s.accumulate);
  s.float_result = json.at("types").get<std::string>() == "bf16 bf16 fp32";
  json.at("epilogue").get_to(s.epilogue);
  json.at("separate").get_to(product.separate);
  json.at("chosen").get_to(product.chosen);
  product.algorithm = from_hex(json.at("algorithm").get<std::string>());
  json.at("candidates").get_to(product.candidates);
  if (json.contains("separate_microseconds"))
    product.separate_microseconds = json.at("separate_microseconds").get<double>();
  const bool has_chosen =
      product.candidates.empty() ? product.separate : product.chosen < product.candidates.size();
  if (!has_chosen) throw std::runtime_error("a product's chosen algorithm is none of its candidates");
  return product;
}

}  // namespace

std::string write_matmul_plans(const std::string& gpu, const std::string& library,
                               const std::vector<MatmulPlan>& plans) {
  Json products = Json::array();
  for (const MatmulPlan& plan : plans) {
    Json json = shape_json(plan.shape);
    json["choice"] = plan.choice;
    json["algorithm"] = nullptr;
    if (plan.algorithm) json["algorithm"] = *plan.algorithm;
    // It was not measured.
    if (plan.algorithm && plan.algorithm->microseconds == 0) json["algorithm"].erase("microseconds");
    products.push_back(std::move(json));
  }
  const Json json{{"gpu", gpu}, {"library", library}, {"products", std::move(products)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string write_autotune_results(const AutotuneResults& results) {
  Json products = Json::array();
  for (const AutotunedMatmul& product : results.products) products.push_back(product_json(product));
  const Json json{{"format", results_format},
                  {"gpu", results.gpu},
                  {"library", results.library},
                  {"products", std::move(products)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

// A value is never trusted further than this: converted back to text it is compared with what was read, so
// that cut fractions and wrapped numbers are found.
AutotuneResults parse_autotune_results(std::string_view text) {
  const auto json = parse_json<Json>(text);
  AutotuneResults results;
  try {
    if (json.at("format") != results_format)
      throw std::runtime_error(fmt::format("its format is not '{}'", results_format));
    json.at("gpu").get_to(results.gpu);
    json.at("library").get_to(results.library);
    for (const Json& product : json.at("products")) results.products.push_back(read_product(product));
  } catch (const Json::exception& error) {
    throw std::runtime_error(fmt::format("a field is missing or of another type: {}", error.what()));
  }
  if (Json::parse(write_autotune_results(results)) != json)
    throw std::runtime_error("it has a value that no run writes");
  return results;
}

}  // namespace muster::compute::cuda
