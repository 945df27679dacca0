// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "catch.hpp"
#include "config/options.hpp"
#include "temporary_folder.hpp"
#include "trainer/data/refusal.hpp"
#include "weights/llmc_file.hpp"

using namespace muster;

namespace {

Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "muster-train");
  const auto options = parse_options(static_cast<int>(arguments.size()), arguments.data());
  REQUIRE(options);
  return *options;
}

}  // namespace

TEST_CASE("options and their defaults", "[options]") {
  const Options defaults = parse({});
  CHECK(defaults.batch == 12);
  CHECK(defaults.model == models::GptConfig{4, 2, 128, 64});
  CHECK(defaults.device == Device::automatic);
  CHECK(defaults.resume == "auto");
  CHECK(defaults.model_name == "small");
  const Options given = parse({"--device=cpu", "--batch", "7", "--learning-rate=1e-2", "--resume", "file",
                               "--seed=18446744073709551615"});
  CHECK(given.device == Device::cpu);
  CHECK(given.batch == 7);
  CHECK(given.learning_rate == Approx(0.01));
  CHECK(given.resume == "file");
  CHECK(given.seed == ~std::uint64_t{0});
  CHECK_FALSE(given.deterministic);
  CHECK(parse({"--keep=7"}).keep == 7);
  CHECK(parse({"--deterministic", "--chunk=3"}).chunk == 3);
}

TEST_CASE("parameter servers have settings of their own", "[options]") {
  const Options served = parse({"--strategy=parameter-server", "--servers=2", "--staleness=unbounded"});
  CHECK(served.servers == 2);
  CHECK(served.staleness == "unbounded");
  CHECK(parse({"--strategy=parameter-server", "--staleness=1000000"}).wire_dtype == "fp32");
  CHECK_FALSE(parse({"--strategy=parameter-server", "--staleness=1", "--no-prefetch"}).prefetch);
}

TEST_CASE("a named model has GPT-2's sizes, and single flags change them", "[options]") {
  // Parameters of OpenAI's released weights.
  for (const auto& [name, parameters] :
       {std::pair{"gpt2-124M", 124'439'808u}, std::pair{"gpt2-350M", 354'823'168u},
        std::pair{"gpt2-774M", 774'030'080u}, std::pair{"gpt2-1558M", 1'557'611'200u}}) {
    CAPTURE(name);
    CHECK(models::gpt_tensors(parse({"--model", name}).model).parameter_count == parameters);
  }
  const Options given = parse({"--layers=2", "--model=gpt2-124M", "--context", "64", "--vocabulary=256"});
  CHECK(given.model == models::GptConfig{2, 12, 768, 64, 256});
  CHECK(parse({"--model=small"}).model == models::GptConfig{});
  CHECK(parse({"--model=mnist-cnn", "--batch=64"}).model_name == "mnist-cnn");
}

TEST_CASE("the Llama kind has the sizes of its options", "[options]") {
  CHECK(parse({"--model=llama"}).model == models::GptConfig{4, 2, 128, 64, 256, models::LlamaConfig{}});
  CHECK(parse({"--model=llama", "--heads=8", "--width=512"}).model ==
        models::GptConfig{4, 8, 512, 64, 256, models::LlamaConfig{8, 1408}});
  const Options given = parse({"--model=llama", "--heads=6", "--kv-heads=3", "--width=96", "--mlp-width=100",
                               "--rotary-theta=5e5", "--norm-epsilon=1e-6", "--tied-output"});
  CHECK(given.model == models::GptConfig{4, 6, 96, 64, 256, models::LlamaConfig{3, 100, 5e5, 1e-6, true}});
}

TEST_CASE("a model's text has its sizes and nothing else", "[options]") {
  for (const models::GptConfig& config :
       {models::GptConfig{2, 3, 24, 9, 300}, models::GptConfig{4, 2, 128, 64, 256, models::LlamaConfig{}},
        models::GptConfig{1, 6, 96, 7, 400, models::LlamaConfig{3, 100, 123456.7, 1.1e-6, true}}}) {
    const std::string text = models::gpt_text(config);
    CAPTURE(text);
    CHECK(models::parse_gpt_text(text) == config);
    CHECK_FALSE(models::parse_gpt_text(text + " more"));
    CHECK_FALSE(models::parse_gpt_text(text.substr(0, text.rfind(' '))));
  }
  for (const models::LlamaConfig& wrong :
       {models::LlamaConfig{4, 100}, models::LlamaConfig{0, 100}, models::LlamaConfig{3, 0},
        models::LlamaConfig{3, 100, 0.5}, models::LlamaConfig{3, 100, 1e4, 0}})
    CHECK_FALSE(models::parse_gpt_text(models::gpt_text({1, 6, 96, 7, 400, wrong})));
  CHECK_FALSE(models::parse_gpt_text(models::gpt_text({1, 6, 30, 7, 400, models::LlamaConfig{3, 100}})));
}

TEST_CASE("networks with batch normalization have larger batches and chunks", "[options]") {
  const Options given = parse({"--model=resnet56", "--deterministic"});
  CHECK(given.batch == 128);
  CHECK(given.chunk == 32);
  CHECK(given.augment);
  const Options chosen = parse({"--model=mobilenet-v1", "--width-multiplier=0.5", "--deterministic",
                                "--batch=9", "--chunk=2", "--no-augment", "--image-size=64"});
  CHECK(chosen.batch == 9);
  CHECK(chosen.chunk == 2);
  CHECK(chosen.width_multiplier == 0.5);
  CHECK(chosen.image_size == 64);
  CHECK_FALSE(chosen.augment);
}

TEST_CASE("wrong options are refused in one line, with the exit code of wrong usage", "[options]") {
  const std::vector<std::vector<const char*>> wrong{
      {"--unknown"},
      {"--steps", "0"},
      {"--steps", "many"},
      {"--steps", "-5"},
      {"--device=gpu"},
      {"--heads=3"},
      {"--batch=0"},
      {"--learning-rate=nan"},
      {"--learning-rate=0"},
      {"--warmup=-1"},
      {"--beta2=1"},
      {"--clip=-1"},
      {"--weight-decay=inf"},
      {"--output="},
      {"--min-learning-rate=1"},
      {"--validation-fraction=1"},
      {"extra"},
      {"--threads=-1"},
      {"--validation-fraction=nan"},
      {"--layers"},
      {"--log-every=-1"},
      {"--seed=-1"},
      {"--chunk=0"},
      {"--model=gpt3"},
      {"--model=mnist-cnn", "--layers=2"},
      {"--model=mnist-cnn", "--no-augment"},
      {"--model=resnet20", "--width-multiplier=0.5"},
      {"--model=mnist-cnn", "--validation-fraction=0.2"},
      {"--validation-data=pictures"},
      {"--label-column=class_id"},
      {"--on-bad-image=skip"},
      {"--data-threads=2"},
      {"--model=resnet20", "--on-bad-image=stopp"},
      {"--model=resnet20", "--validation-data=a", "--validation-fraction=0.2"},
      {"--model=mobilenet-v1", "--width-multiplier=0"},
      {"--image-size=64"},
      {"--sync-batch-norm"},
      {"--model=resnet20", "--sync-batch-norm", "--deterministic"},
      {"--model=mnist-cnn", "--validation-tokens=5"},
      {"--validation-tokens=-1"},
      {"--model=gpt2-124M", "--heads=5"},
      {"--vocabulary=1"},
      {"--kv-heads=1"},
      {"--model=gpt2-124M", "--tied-output"},
      {"--model=llama", "--kv-heads=3"},
      {"--model=llama", "--heads=128"},
      {"--model=llama", "--mlp-width=0"},
      {"--model=llama", "--rotary-theta=0"},
      {"--model=llama", "--rotary-theta=inf"},
      {"--model=llama", "--norm-epsilon=0"},
      {"--model=llama", "--device=cpu", "--norm-epsilon=nan"},
      {"--vocabulary=1048577"},
      {"--chunk=2"},
      {"--deterministic=perhaps"},
      {"--output", "--steps", "5"},
      {"--config", "/nonexistent/run.toml", "--steps=0"},
      {"--keep=0"},
      {"--keep=-1"},
      {"--stop-after-skipped=0"},
      {"--elastic=4:2"},
      {"--elastic=0:4"},
      {"--elastic=2:"},
      {"--elastic=2:4x"},
      {"--join"},
      {"--strategy=pipeline", "--elastic=2:4"},
      {"--servers=2"},
      {"--staleness=3"},
      {"--strategy=parameter-server", "--servers=0"},
      {"--strategy=parameter-server", "--staleness=-1"},
      {"--strategy=parameter-server", "--staleness=none"},
      {"--strategy=parameter-server", "--staleness=1000001"},
      {"--strategy=parameter-server", "--wire-dtype=fp16"},
      {"--strategy=parameter-server", "--no-prefetch"},
      {"--strategy=parameter-server", "--shard-optimizer"},
      {"--strategy=parameter-server", "--micro-batch=2"},
      {"--strategy=parameter-server", "--sync-every=3"},
      {"--strategy=parameter-server", "--deterministic", "--staleness=1"},
      {"--strategy=parameter-server", "--deterministic", "--wire-dtype=bf16"}};
  for (const auto& arguments : wrong) {
    CAPTURE(arguments[0]);
    CHECK(usage_error_text([&] { parse(arguments); }).find("--help") != std::string::npos);
  }
}

TEST_CASE("--init-from has the sizes of a GPT, which no option changes", "[options]") {
  const TemporaryFolder folder;
  const auto write = [&](const models::GptConfig& config) {
    const std::vector<float> parameters(models::gpt_tensors(config).arena_size);
    weights::write_llmc_file(folder / "model.bin", config, parameters);
    return (folder / "model.bin").string();
  };
  const std::string path = write({1, 2, 8, 6, 300});
  const Options given = parse({"--init-from", path.c_str()});
  CHECK(given.model == models::GptConfig{1, 2, 8, 6, 300});
  for (const char* size : {"--layers=1", "--vocabulary=300", "--model=small"}) {
    CAPTURE(size);
    CHECK_THROWS_AS(parse({"--init-from", path.c_str(), size}), Error);
  }
}

TEST_CASE("trained weights have a lower learning rate than random ones", "[options]") {
  const TemporaryFolder folder;
  const models::GptConfig config{1, 2, 8, 6, 300};
  const std::vector<float> parameters(models::gpt_tensors(config).arena_size);
  weights::write_llmc_file(folder / "model.bin", config, parameters);
  const std::string path = (folder / "model.bin").string();
  const Options tuned = parse({"--init-from", path.c_str()});
  CHECK(tuned.learning_rate == 5e-5);
  CHECK(tuned.min_learning_rate == 5e-5 / 10);
  CHECK(parse({"--init-from", path.c_str(), "--learning-rate=1e-4"}).min_learning_rate == 1e-4 / 10);
  CHECK(parse({"--init-from", path.c_str(), "--schedule=constant"}).learning_rate == 5e-5);
}
