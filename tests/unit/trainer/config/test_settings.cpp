// SPDX-License-Identifier: Apache-2.0
// Settings from files and the environment: precedence, printing and errors.
#include <fmt/format.h>
#include <stdlib.h>

#include <sstream>
#include <vector>

#include "catch.hpp"
#include "config/settings.hpp"
#include "config/suggest_name.hpp"
#include "muster/error.hpp"
#include "temporary_folder.hpp"

using namespace muster;

namespace {

/// Sets an environment variable during a test.
class Variable {
 public:
  Variable(std::string name, const std::string& value) : name_(std::move(name)) {
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_.c_str()); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  std::string name_;
};

Options read(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "muster-train");
  std::vector<const char*> pointers;
  for (const auto& argument : arguments) pointers.push_back(argument.c_str());
  const auto options = parse_options(static_cast<int>(pointers.size()), pointers.data());
  REQUIRE(options);
  return *options;
}

std::string error_text(const std::vector<std::string>& arguments) {
  try {
    read(arguments);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

/// The error text for a settings file with this content, without the file's name.
std::string file_error_text(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = (folder / "run.toml").string();
  write_file(path, text);
  const std::string with_help = error_text({"--config=" + path});
  CHECK(with_help.find('\n') == std::string::npos);
  return with_help.starts_with(path) ? with_help.substr(path.size()) : with_help;
}

constexpr const char* help = " (see muster-train --help)";

}  // namespace

TEST_CASE(
    "the command line overrides the environment, which overrides the file, which overrides the defaults",
    "[settings]") {
  const TemporaryFolder folder;
  const std::string path = (folder / "run.toml").string();
  write_file(path,
             "# four settings\nsteps = 10\nwarmup = 7\nlearning-rate = 0.125\ndeterministic = true\noutput "
             "= 'a \"b\"'\n");
  const Options from_file = read({"--config", path});
  CHECK(from_file.steps == 10);
  CHECK(from_file.warmup == 7);
  CHECK(from_file.learning_rate == 0.125);
  CHECK(from_file.deterministic);
  CHECK(from_file.output == "a \"b\"");
  CHECK(from_file.batch == Options{}.batch);

  const Variable config("MUSTER_TRAIN_CONFIG", path);
  const Variable steps("MUSTER_TRAIN_STEPS", "20"), warmup("MUSTER_TRAIN_WARMUP", "19");
  const Options all = read({"--steps=30", "--no-deterministic"});
  CHECK(all.steps == 30);
  CHECK(all.warmup == 19);
  CHECK(all.learning_rate == 0.125);
  CHECK_FALSE(all.deterministic);
  CHECK(all.origins.at("steps") == "command line");
  CHECK(all.origins.at("warmup") == "MUSTER_TRAIN_WARMUP");
  CHECK(all.origins.at("learning-rate") == path + ":4");
  CHECK(all.origins.count("batch") == 0);
  // --config on the command line overrides the variable.
  write_file(folder / "other.toml", "clip = 7\n");
  const Options other = read({"--config", (folder / "other.toml").string()});
  CHECK(other.optimizer.clip == 7);
  CHECK(other.learning_rate == Options{}.learning_rate);
}

TEST_CASE("unknown settings are refused with the nearest name and their place", "[settings]") {
  CHECK(error_text({"--lerning-rate", "1"}) ==
        std::string("unknown option --lerning-rate; did you mean --learning-rate?") + help);
  CHECK(error_text({"--setps=3"}) == std::string("unknown option --setps; did you mean --steps?") + help);
  CHECK(error_text({"--qwertyuiop"}) == std::string("unknown option --qwertyuiop") + help);
  CHECK(error_text({"make-dta", "digits"}) ==
        std::string("unexpected argument 'make-dta'; did you mean make-data?") + help);
  CHECK(error_text({"more"}) == std::string("unexpected argument 'more'") + help);
  CHECK(error_text({"--output", "--steps", "5"}) ==
        std::string("--output: a value is missing before --steps") + help);
  CHECK(error_text({"--config", "--steps", "5"}) ==
        std::string("--config: a value is missing before --steps") + help);
  {
    const Variable wrong("MUSTER_TRAIN_BACTH", "3");
    CHECK(error_text({}) ==
          std::string("unknown variable MUSTER_TRAIN_BACTH; did you mean MUSTER_TRAIN_BATCH?") + help);
  }
  {
    const Variable wrong("MUSTER_TRAIN_batch", "3");
    CHECK(error_text({}) ==
          std::string("unknown variable MUSTER_TRAIN_batch; did you mean MUSTER_TRAIN_BATCH?") + help);
  }
  {
    const Variable wrong("MUSTER_TRAIN_STEPS", "many");
    CHECK(error_text({}).starts_with("MUSTER_TRAIN_STEPS: "));
    CHECK(error_text({"--steps=3"}).starts_with("MUSTER_TRAIN_STEPS: "));
  }
  CHECK(file_error_text("\nlayer = 2\n") ==
        std::string(":2: unknown setting 'layer'; did you mean layers?") + help);
  CHECK(file_error_text("learning_rate = 1\n") ==
        std::string(":1: unknown setting 'learning_rate'; did you mean learning-rate?") + help);
  CHECK(file_error_text("no-deterministic = true\n").starts_with(":1: unknown setting 'no-deterministic'"));
  CHECK(file_error_text("config = 'x'\n").starts_with(":1: unknown setting 'config'"));
  CHECK(file_error_text("help = true\n").starts_with(":1: unknown setting 'help'"));
  CHECK(file_error_text("steps = 1\nbatch = 0\n")
            .starts_with(":2: --batch: '0' must be an integer from 1 to 1048576"));
  CHECK(file_error_text("steps = true\n") ==
        std::string(":1: steps must be a number or a text in quotes, not true") + help);
  CHECK(file_error_text("output = true\n") ==
        std::string(":1: output must be a number or a text in quotes, not true") + help);
  CHECK(file_error_text("data = false\n").starts_with(":1: data must be"));
  CHECK(file_error_text("output = 'true'\ndeterministic = true\nmfu = 'false'\n") == "accepted");
  CHECK(file_error_text("deterministic = 'perhaps'\n").starts_with(":1: "));
  CHECK(file_error_text("output = ''\nsteps = 5\n").starts_with("--output must name a folder"));
  CHECK(file_error_text("heads = 3\n").starts_with("--width 128 cannot be divided"));
}

TEST_CASE("of several errors in a file, the first line's is reported", "[settings]") {
  CHECK(file_error_text("steps = 0\nbatch = 0\n").starts_with(":1: --steps"));
  CHECK(file_error_text("batch = 0\nsteps = 0\n").starts_with(":1: --batch"));
  CHECK(file_error_text("\nwidht = 1\nbatch = 0\n").starts_with(":2: unknown setting 'widht'"));
  CHECK(file_error_text("steps = [1]\n[batch]\n").starts_with(":1: steps must be a number"));
}

TEST_CASE("invalid values are refused with their text and place", "[settings]") {
  const auto with_help = [](const std::string& text) { return text + help; };
  for (const char* text : {"1e3", "12.5", "0x10", "1k", "nan", "99999999999999999999", " 3", "0"})
    CHECK(error_text({std::string("--batch=") + text}) ==
          with_help(fmt::format("--batch: '{}' must be an integer from 1 to 1048576", text)));
  CHECK(error_text({"--seed=99999999999999999999"}) ==
        with_help("--seed: '99999999999999999999' must be an integer from 0 to 18446744073709551615"));
  CHECK(error_text({"--log-every=nan"}) == with_help("--log-every: 'nan' must be a number from 0 to 86400"));
  CHECK(error_text({"--learning-rate=1,5"}) == with_help("--learning-rate: '1,5' must be a number above 0"));
  CHECK(error_text({"--batch="}) == with_help("--batch needs a value"));
  CHECK(error_text({"--model=gpt2-124m"}) ==
        with_help("--model: gpt2-124m not in {small,llama,gpt2-124M,gpt2-350M,gpt2-774M,gpt2-1558M,mnist-cnn,"
                  "resnet20,resnet32,resnet44,resnet56,resnet110,resnet50,mobilenet-v1}"));
  CHECK(error_text({"--deterministic=2"}).starts_with("--deterministic: 2 not in {true,false"));
  CHECK(file_error_text("mfu = 3.0\n").starts_with(":1: --mfu: 3 not in {true,false"));
  CHECK(file_error_text("\nlearning-rate = inf\n") ==
        with_help(":2: --learning-rate: 'inf' must be a number above 0"));
  const Variable empty("MUSTER_TRAIN_MFU", "");
  CHECK(error_text({}) == with_help("MUSTER_TRAIN_MFU: mfu must be true or false"));
}

TEST_CASE("a size of GPT-2 has its own default learning rates", "[settings]") {
  CHECK(read({"--model=small"}).learning_rate == 3e-3);
  const Options smallest = read({"--model=gpt2-124M"}), largest = read({"--model=gpt2-1558M"});
  CHECK(smallest.learning_rate == 6e-4);
  CHECK(smallest.min_learning_rate == 6e-4 / 10);
  CHECK(largest.learning_rate == 2e-4);
  const Options given = read({"--model=gpt2-350M", "--learning-rate=3e-3", "--min-learning-rate=1e-4"});
  CHECK(given.learning_rate == 3e-3);
  CHECK(given.min_learning_rate == 1e-4);
}

TEST_CASE("a given learning rate falls to a tenth of it", "[settings]") {
  CHECK(read({"--learning-rate=2e-3"}).min_learning_rate == 2e-3 / 10);
  CHECK(read({"--learning-rate=5e-5"}).min_learning_rate == 5e-5 / 10);
  CHECK(read({"--model=gpt2-124M", "--learning-rate=1e-3"}).min_learning_rate == 1e-3 / 10);
  CHECK(read({"--optimizer=sgd", "--learning-rate=0.5"}).min_learning_rate == 0);
  CHECK(read({}).min_learning_rate == 1e-4);
  CHECK(read({"--min-learning-rate=1e-6"}).learning_rate == 3e-3);
}

TEST_CASE("settings that contradict others, or have no effect because of them, are refused", "[settings]") {
  const auto with_help = [](const std::string& text) { return text + help; };
  CHECK(error_text({"--warmup=101", "--steps=50"}) ==
        with_help("--warmup 101 is longer than --steps 50: give fewer steps of warm-up, or more steps"));
  CHECK(error_text({"--steps=50"}) == "accepted");  // the run prints a note on a default that is too long
  CHECK(file_error_text("warmup = 9\nsteps = 8\n").find(":1) is longer than --steps 8 (") !=
        std::string::npos);
  CHECK(error_text({"--learning-rate=5e-5", "--min-learning-rate=1e-4"}) ==
        with_help("--min-learning-rate 0.0001 is above --learning-rate 5e-05: give a lower one"));
  CHECK(
      error_text({"--validation-fraction=0", "--eval-every=5"}) ==
      with_help(
          "--eval-every 5 has no effect with --validation-fraction 0, which holds nothing out: leave one of "
          "them out"));
  CHECK(error_text({"--validation-fraction=0", "--validation-tokens=5"})
            .starts_with("--validation-tokens 5 has"));
  CHECK(error_text({"--validation-fraction=0", "--eval-every=0"}) == "accepted");
  CHECK(error_text({"--model=mnist-cnn", "--validation-fraction=0.2"}) ==
        with_help("--validation-fraction 0.2 has no effect with mnist-cnn, whose files say what is held out: "
                  "leave it "
                  "out"));
  CHECK(error_text({"--chunk=2"}) ==
        with_help("--chunk 2 has a meaning with --deterministic only: leave it out, or add that"));
  CHECK(error_text({"--device=cuda", "--threads=2"}) ==
        with_help("--threads 2 has no effect with --device=cuda: leave it out"));
  // The output of --print-config is accepted again.
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--steps=50"},
                                             {"--validation-fraction=0"},
                                             {"--model=mnist-cnn"},
                                             {"--device=cuda"},
                                             {"--schedule=constant"},
                                             {"--schedule=constant", "--learning-rate=0.01"},
                                             {"--schedule=constant", "--model=gpt2-124M"}})
    CHECK(file_error_text(settings_as_toml(read(arguments))) == "accepted");
}

TEST_CASE("SGD has its own defaults, and settings of the other optimizer are refused", "[settings]") {
  const Options sgd = read({"--optimizer=sgd"});
  CHECK(sgd.optimizer.kind == OptimizerKind::sgd);
  CHECK(sgd.learning_rate == 0.1);
  CHECK(sgd.min_learning_rate == 0);
  CHECK(sgd.optimizer.weight_decay == 1e-4);
  CHECK(sgd.optimizer.clip == 0);
  const Options given = read({"--optimizer=sgd", "--clip=2", "--learning-rate=0.5", "--nesterov"});
  CHECK(given.optimizer.clip == 2);
  CHECK(given.learning_rate == 0.5);
  CHECK(given.optimizer.nesterov);
  CHECK(error_text({"--optimizer=sgd", "--beta1=0.5"}) ==
        std::string("--beta1 0.5 has no effect with --optimizer sgd: leave it out") + help);
  CHECK(error_text({"--momentum=0.5"}) ==
        std::string("--momentum 0.5 has no effect with --optimizer adamw (the default): leave it out") +
            help);
  CHECK(error_text({"--optimizer=sgd", "--nesterov", "--momentum=0"}) ==
        std::string("--nesterov needs a --momentum above 0") + help);
  // What --print-config prints can be read again.
  const TemporaryFolder folder;
  write_file(folder / "printed.toml", settings_as_toml(sgd));
  CHECK(read({"--config", (folder / "printed.toml").string()}).optimizer.kind == OptimizerKind::sgd);
}

TEST_CASE("micro-batches are refused where ranks could have different numbers of them, or chunks",
          "[settings]") {
  CHECK(error_text({"--model=resnet20", "--sync-batch-norm", "--micro-batch=2"})
            .find("--sync-batch-norm contradicts --micro-batch") == 0);
  CHECK(error_text({"--deterministic", "--micro-batch=2"}) ==
        std::string("--micro-batch 2 has no effect with --deterministic, which computes a --chunk at once: "
                    "leave it out") +
            help);
}

TEST_CASE("--no-autotune is refused where nothing is tuned", "[settings]") {
  CHECK(error_text({"--no-autotune"}) == "accepted");
  for (const char* other : {"--device=cpu", "--deterministic", "--model=mnist-cnn", "--strategy=pipeline",
                            "--strategy=parameter-server"}) {
    CAPTURE(other);
    CHECK(error_text({"--no-autotune", other}).starts_with("--no-autotune has no effect: "));
  }
}

TEST_CASE("an interleaved schedule has at least two stages on each rank", "[settings]") {
  const std::vector<std::string> interleaved{"--strategy=pipeline", "--pipeline-schedule=interleaved-1f1b"};
  const auto with = [&](const std::string& argument) {
    std::vector<std::string> all = interleaved;
    all.push_back(argument);
    return all;
  };
  CHECK(read(interleaved).virtual_stages == 2);
  CHECK(read(with("--virtual-stages=3")).virtual_stages == 3);
  CHECK(read({"--strategy=pipeline"}).virtual_stages == 1);
  CHECK(
      error_text(with("--virtual-stages=1"))
          .starts_with("--virtual-stages 1 interleaves nothing with --pipeline-schedule interleaved-1f1b: "));
  CHECK(file_error_text(settings_as_toml(read(interleaved))) == "accepted");
}

TEST_CASE("the schedule of the learning rate", "[settings]") {
  const Options step =
      read({"--schedule=step", "--milestones=30,60", "--warmup=0", "--steps=90", "--learning-rate=1"});
  CHECK(learning_rate_schedule(step).at(29) == 1);
  CHECK(learning_rate_schedule(step).at(60) == Approx(0.01));
  const Options wsd = read({"--schedule=wsd", "--steps=1000", "--min-learning-rate=0"});
  CHECK(learning_rate_schedule(wsd).decay_steps == 100);
  CHECK(learning_rate_schedule(wsd).at(900) == Approx(wsd.learning_rate));
  CHECK(learning_rate_schedule(wsd).at(950) == Approx(wsd.learning_rate / 2));
  for (const char* text : {"60,30", "30,,60", "30,", ",30", "0", "3e4", "30;60", "-3"}) {
    CAPTURE(text);
    CHECK(error_text({"--schedule=step", std::string("--milestones=") + text}) ==
          fmt::format("--milestones {}: give rising numbers of steps, with commas{}", text, help));
  }
  CHECK(error_text({"--schedule=step", "--milestones=30,90", "--steps=90", "--warmup=0"}) ==
        fmt::format("--milestones 30,90 is not below --steps 90: give earlier milestones, or more steps{}",
                    help));
  CHECK(error_text({"--schedule=step", "--milestones=32000,48000"})
            .starts_with("--milestones 32000,48000 is not below --steps 2000 (the default): "));
  CHECK(error_text({"--schedule=step"}).find("needs --milestones") != std::string::npos);
  CHECK(error_text({"--milestones=30"}) ==
        std::string("--milestones 30 has no effect with --schedule cosine (the default): leave it out") +
            help);
  CHECK(error_text({"--schedule=constant", "--min-learning-rate=1e-5"}) ==
        std::string("--min-learning-rate 1e-05 has no effect with --schedule constant: leave it out") + help);
  CHECK(error_text({"--schedule=wsd", "--decay-steps=20", "--steps=10", "--warmup=0"}) ==
        std::string("--decay-steps 20 is longer than --steps 10") + help);
}

TEST_CASE("files that are not settings files are refused with the line of the error", "[settings]") {
  CHECK(file_error_text("steps = 1\nsteps = 2\n").starts_with(":2: "));
  CHECK(file_error_text("steps 1\n").starts_with(":1: "));
  CHECK(file_error_text("steps = 1\n\n[training]\nbatch = 2\n").starts_with(":3: training must be a number"));
  CHECK(file_error_text("steps = [1]\n").starts_with(":1: steps must be a number"));
  CHECK(file_error_text("steps = 1979-05-27\n").starts_with(":1: steps must be a number"));
  CHECK(file_error_text("\"a\\nb\" = 1\n") == std::string(":1: unknown setting 'a?b'") + help);
  CHECK(error_text({"--a\nb"}) == std::string("unknown option --a?b") + help);
  CHECK(file_error_text("data = \"a\\u0000b\"\n").starts_with(":1: data must be"));
  CHECK(file_error_text(std::string("steps = 1\0\n", 11)) == ": has control characters; not a text file");
  CHECK(file_error_text("steps = 1\nst\u00e9ps = 1\n") ==
        ":2: a letter beyond ASCII outside of quotation marks");
  CHECK(file_error_text(std::string((1 << 20) + 1, '\n')).find("longer than 1 MiB") != std::string::npos);
  CHECK(file_error_text("") == "accepted");
  const TemporaryFolder folder;
  CHECK(error_text({"--config", (folder / "missing").string()}).find("No such file") != std::string::npos);
  CHECK(error_text({"--config", folder.path().string()}).find("Is a directory") != std::string::npos);
}

TEST_CASE("the printed settings, read as a file, give the same settings", "[settings]") {
  const TemporaryFolder folder;
  Options options = read({});
  options.data = "a\\b \"c\"\n1.50";
  options.output = "007";
  options.learning_rate = 0.1234567890123456789;
  options.min_learning_rate = 1e-300;
  options.optimizer.beta2 = 0.9999999999;
  options.seed = ~std::uint64_t{0};
  options.steps = 1'000'000'000'000;
  options.deterministic = true;
  options.device = Device::cpu;
  const std::string path = (folder / "printed.toml").string();
  write_file(path, settings_as_toml(options));
  const Options again = read({"--config", path});
  const auto expected = list_settings(options), got = list_settings(again);
  REQUIRE(expected.size() == got.size());
  CHECK(expected.size() > 20);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(expected[i].name);
    CHECK(expected[i].value == got[i].value);
    CHECK(again.origins.count(got[i].name) ==
          (got[i].value.empty() ? 0 : 1));  // every set value was in the file
  }
  CHECK(again.learning_rate == options.learning_rate);
  CHECK(again.seed == options.seed);
  CHECK(again.device == Device::cpu);
}

TEST_CASE("the nearest name is suggested", "[settings]") {
  const auto hint = [](const std::string& name) { return "; did you mean " + name + "?"; };
  CHECK(suggest_name("wdth", {"heads", "width"}) == hint("width"));
  CHECK(suggest_name("setps", {"steps"}) == hint("steps"));
  CHECK(suggest_name("x", {"a", "bb"}).empty());
  const std::vector<std::string> names{"--learning-rate", "--checkpoint-every", "--beta1", "--beta2",
                                       "--batch"};
  CHECK(suggest_name("--checkpoint", names) == hint("--checkpoint-every"));
  CHECK(suggest_name("--batch-size", names) == hint("--batch"));
  CHECK(suggest_name("--", names).empty());
  CHECK(suggest_name(std::string(10'000, 'a'), {"a"}).empty());
}
