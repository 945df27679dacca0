// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "config/options.hpp"

using namespace muster;

TEST_CASE("each setting with less effect than its name says is reported in one line", "[settings]") {
  Options options;
  CHECK(setting_warnings(options, {2, 12}).empty());
  options.steps = 50;
  options.shard_optimizer = true;
  options.batch = 14;
  CHECK(setting_warnings(options, {1, 13}) ==
        std::vector<std::string>{
            "--warmup 100 is longer than --steps 50: the learning rate reaches only 0.0015",
            "--shard-optimizer has no effect on 1 rank",
            "--batch 14 is more than all 13 samples to train on: some are in a batch several times"});
  options = {};
  options.deterministic = true;
  options.chunk = 6;
  CHECK(setting_warnings(options, {2, 100}).empty());
  CHECK(setting_warnings(options, {3, 100}) ==
        std::vector<std::string>{
            "--batch 12 in chunks of --chunk 6 is 2 chunks: 1 of 3 ranks have nothing to do"});
}

TEST_CASE("validations that take more than the training are reported", "[settings]") {
  Options options;  // 2000 steps of 12 samples, and 8 validations
  options.warmup = 0;
  CHECK(setting_warnings(options, {1, 1000, 2000 * 12 * 64 / 8, 64}).empty());
  CHECK(setting_warnings(options, {1, 1000, 2000 * 12 * 64 / 8 + 1, 64}) ==
        std::vector<std::string>{"8 validations of 192001 tokens each have more of them than the training, "
                                 "1536000: raise --eval-every or set --validation-tokens"});
  options.eval_every = 0;
  CHECK(setting_warnings(options, {1, 1000, 192001, 64}).empty());
}
