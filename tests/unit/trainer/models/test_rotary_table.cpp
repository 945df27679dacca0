// SPDX-License-Identifier: Apache-2.0
// Rotary positions, plain and scaled as those of Llama 3.1.
#include <cmath>
#include <vector>

#include "catch.hpp"
#include "models/rotary_table.hpp"

using namespace muster::models;

namespace {

LlamaConfig scaled(double theta, const RotaryScaling& scaling) {
  LlamaConfig llama;
  llama.rotary_theta = theta;
  llama.rotary_scaling = scaling;
  return llama;
}

void check_frequencies(const LlamaConfig& llama, std::size_t width, const std::vector<double>& expected) {
  REQUIRE(expected.size() == width / 2);
  for (std::size_t pair = 0; pair < expected.size(); ++pair) {
    CAPTURE(pair);
    CHECK(rotary_frequency(llama, pair, width) == Approx(expected[pair]).epsilon(1e-6));
  }
}

}  // namespace

TEST_CASE("scaled rotary frequencies are those of transformers' rope_type llama3", "[rotary]") {
  // Printed by transformers 5.24's ROPE_INIT_FUNCTIONS["llama3"], in float32. The first are Llama 3.2's.
  check_frequencies(scaled(5e5, {32, 1, 4, 8192}), 64,
                    {1.0,
                     0.663601279258728,
                     0.44036662578582764,
                     0.2922278344631195,
                     0.193922758102417,
                     0.12868738174438477,
                     0.08539710193872452,
                     0.05666961893439293,
                     0.03760603070259094,
                     0.02495540864765644,
                     0.016560440883040428,
                     0.010989529080688953,
                     0.00729266507551074,
                     0.00483942124992609,
                     0.0032114461064338684,
                     0.0012905480107292533,
                     0.000429556705057621,
                     9.708286233944818e-05,
                     1.9461638657958247e-05,
                     1.291476746700937e-05,
                     8.570255886297673e-06,
                     5.687232260243036e-06,
                     3.7740544485131977e-06,
                     2.504467147446121e-06,
                     1.6619674170215148e-06,
                     1.1028836297555245e-06,
                     7.318749339901842e-07,
                     4.856731266045244e-07,
                     3.2229328894572973e-07,
                     2.1387423032592778e-07,
                     1.4192720243499934e-07,
                     9.418306490260875e-08});
  check_frequencies(scaled(700, {8, 1, 4, 64}), 8,
                    {1.0, 0.07988699525594711, 0.004724555648863316, 0.0009185154922306538});
}

TEST_CASE("the rotary table has cosine and sine of position times frequency", "[rotary]") {
  const GptConfig config{1, 1, 8, 5, 256, scaled(700, {8, 1, 4, 64})};
  const auto table = rotary_table<double>(config);
  REQUIRE(table.size() == 40);
  const double angle = 3 * rotary_frequency(*config.llama, 2, 8);
  CHECK(table.data()[3 * 8 + 2] == std::cos(angle));
  CHECK(table.data()[3 * 8 + 4 + 2] == std::sin(angle));
}

TEST_CASE("a checkpoint's text keeps the rotary scaling", "[rotary]") {
  const GptConfig config{1, 2, 16, 131072, 128256, scaled(5e5, {32, 1, 4.5, 8192})};
  const std::string text = gpt_text(config);
  CHECK(text.ends_with(" output=own scaling=32,1,4.5,8192"));
  CHECK(parse_gpt_text(text) == config);
  CHECK_FALSE(parse_gpt_text(text + " "));
  CHECK_FALSE(parse_gpt_text(text.substr(0, text.size() - 5)));
  for (const RotaryScaling& wrong :
       {RotaryScaling{0.5, 1, 4, 8192}, RotaryScaling{8, 4, 4, 8192}, RotaryScaling{8, 0, 4, 8192},
        RotaryScaling{8, 1, 4, 0}, RotaryScaling{std::nan(""), 1, 4, 8192}}) {
    GptConfig refused = config;
    refused.llama->rotary_scaling = wrong;
    CHECK_FALSE(size_problem(refused).empty());
  }
}
