// SPDX-License-Identifier: Apache-2.0
// Settings from files and the environment: which counts, how they are told, and how mistakes are.
#include "config/settings.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <sstream>
#include <vector>

#include "catch.hpp"
#include "config/suggest_name.hpp"
#include "muster/error.hpp"
#include "temporary_folder.hpp"

using namespace muster;

namespace {

/// A variable for the time of a test.
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

std::string complaint(const std::vector<std::string>& arguments) {
  try {
    read(arguments);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

/// What a settings file of this text is refused with, without the file's name.
std::string complaint_of_file(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = (folder / "run.toml").string();
  write_file(path, text);
  const std::string told = complaint({"--config=" + path});
  CHECK(told.find('\n') == std::string::npos);
  return told.starts_with(path) ? told.substr(path.size()) : told;
}

constexpr const char* help = " (see muster-train --help)";

}  // namespace

TEST_CASE("the command line counts before the environment, that before the file, that before the defaults",
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
  // Another file than the variable's, when the command line names one.
  write_file(folder / "other.toml", "clip = 7\n");
  const Options other = read({"--config", (folder / "other.toml").string()});
  CHECK(other.adamw.clip == 7);
  CHECK(other.learning_rate == Options{}.learning_rate);
}

TEST_CASE("what is not known is refused with the nearest name and its place", "[settings]") {
  CHECK(complaint({"--lerning-rate", "1"}) ==
        std::string("unknown option --lerning-rate; did you mean --learning-rate?") + help);
  CHECK(complaint({"--setps=3"}) == std::string("unknown option --setps; did you mean --steps?") + help);
  CHECK(complaint({"--qwertyuiop"}) == std::string("unknown option --qwertyuiop") + help);
  CHECK(complaint({"make-dta", "digits"}) ==
        std::string("unexpected argument 'make-dta'; did you mean make-data?") + help);
  CHECK(complaint({"more"}) == std::string("unexpected argument 'more'") + help);
  CHECK(complaint({"--output", "--steps", "5"}) ==
        std::string("--output wants a value and got --steps") + help);
  {
    const Variable wrong("MUSTER_TRAIN_BACTH", "3");
    CHECK(complaint({}) ==
          std::string("unknown variable MUSTER_TRAIN_BACTH; did you mean MUSTER_TRAIN_BATCH?") + help);
  }
  {
    const Variable wrong("MUSTER_TRAIN_batch", "3");
    CHECK(complaint({}) ==
          std::string("unknown variable MUSTER_TRAIN_batch; did you mean MUSTER_TRAIN_BATCH?") + help);
  }
  {
    const Variable wrong("MUSTER_TRAIN_STEPS", "many");
    CHECK(complaint({}).starts_with("MUSTER_TRAIN_STEPS: "));
    CHECK(complaint({"--steps=3"}).starts_with("MUSTER_TRAIN_STEPS: "));
  }
  CHECK(complaint_of_file("\nlayer = 2\n") ==
        std::string(":2: unknown setting 'layer'; did you mean layers?") + help);
  CHECK(complaint_of_file("learning_rate = 1\n") ==
        std::string(":1: unknown setting 'learning_rate'; did you mean learning-rate?") + help);
  CHECK(complaint_of_file("no-deterministic = true\n").starts_with(":1: unknown setting 'no-deterministic'"));
  CHECK(complaint_of_file("config = 'x'\n").starts_with(":1: unknown setting 'config'"));
  CHECK(complaint_of_file("help = true\n").starts_with(":1: unknown setting 'help'"));
  CHECK(complaint_of_file("steps = 1\nbatch = 0\n")
            .starts_with(":2: --batch: '0' is no whole number from 1 to 1048576"));
  CHECK(complaint_of_file("steps = true\n") ==
        std::string(":1: steps is no switch: it wants a value") + help);
  CHECK(complaint_of_file("deterministic = 'perhaps'\n").starts_with(":1: "));
  CHECK(complaint_of_file("output = ''\nsteps = 5\n").starts_with("--output must name a folder"));
  CHECK(complaint_of_file("heads = 3\n").starts_with("--width 128 cannot be divided"));
}

TEST_CASE("values that are none of their kind are told as they were given, with their place", "[settings]") {
  const auto told = [](const std::string& text) { return text + help; };
  for (const char* text : {"1e3", "12.5", "0x10", "1k", "nan", "99999999999999999999", " 3", "0"})
    CHECK(complaint({std::string("--batch=") + text}) ==
          told(fmt::format("--batch: '{}' is no whole number from 1 to 1048576", text)));
  CHECK(complaint({"--seed=99999999999999999999"}) ==
        told("--seed: '99999999999999999999' is no whole number from 0 to 18446744073709551615"));
  CHECK(complaint({"--log-every=nan"}) == told("--log-every: 'nan' is no number from 0 to 86400"));
  CHECK(complaint({"--learning-rate=1,5"}) == told("--learning-rate: '1,5' is no number above 0"));
  CHECK(complaint({"--batch="}) == told("--batch wants a value"));
  CHECK(complaint({"--model=gpt2-124m"}).ends_with(told("mnist-cnn; did you mean gpt2-124M?")));
  CHECK(complaint({"--deterministic=2"}).starts_with("--deterministic: '2' is none of true, false"));
  CHECK(complaint_of_file("mfu = 3.0\n").starts_with(":1: --mfu: '3' is none of"));
  CHECK(complaint_of_file("\nlearning-rate = inf\n") ==
        told(":2: --learning-rate: 'inf' is no number above 0"));
  const Variable empty("MUSTER_TRAIN_MFU", "");
  CHECK(complaint({}) == told("MUSTER_TRAIN_MFU: mfu wants true or false"));
}

TEST_CASE("a size of GPT-2 has its own learning rates, unless others are given", "[settings]") {
  CHECK(read({"--model=small"}).learning_rate == 3e-3);
  const Options smallest = read({"--model=gpt2-124M"}), largest = read({"--model=gpt2-1558M"});
  CHECK(smallest.learning_rate == 6e-4);
  CHECK(smallest.min_learning_rate == 6e-4 / 10);
  CHECK(largest.learning_rate == 2e-4);
  const Options given = read({"--model=gpt2-350M", "--learning-rate=3e-3", "--min-learning-rate=1e-4"});
  CHECK(given.learning_rate == 3e-3);
  CHECK(given.min_learning_rate == 1e-4);
}

TEST_CASE("settings that contradict others, or would have no effect beside them, are refused", "[settings]") {
  const auto told = [](const std::string& text) { return text + help; };
  CHECK(complaint({"--warmup=100", "--steps=50"}) ==
        told("--warmup 100 is longer than --steps 50: give fewer steps of warm-up, or more steps"));
  CHECK(complaint({"--steps=50"}) == "accepted");  // a default is nobody's wish: the run tells
  CHECK(complaint_of_file("warmup = 9\nsteps = 8\n").find(":1) is longer than --steps 8 (") !=
        std::string::npos);
  CHECK(complaint({"--learning-rate=5e-5"}) ==
        told("--min-learning-rate 0.0001 (the default) is above --learning-rate 5e-05: give a lower one"));
  CHECK(
      complaint({"--validation-fraction=0", "--eval-every=5"}) ==
      told("--eval-every 5 has no effect with --validation-fraction 0, which holds nothing out: leave one of "
           "them out"));
  CHECK(complaint({"--validation-fraction=0", "--validation-tokens=5"})
            .starts_with("--validation-tokens 5 has"));
  CHECK(complaint({"--validation-fraction=0", "--eval-every=0"}) == "accepted");
  CHECK(complaint({"--model=mnist-cnn", "--validation-fraction=0.1"}) ==
        told("--validation-fraction 0.1 has no effect with mnist-cnn, whose files say what is held out: "
             "leave it "
             "out"));
  CHECK(complaint({"--chunk=1"}) ==
        told("--chunk 1 has a meaning with --deterministic only: leave it out, or add that"));
  CHECK(complaint({"--device=cuda", "--threads=2"}) ==
        told("--threads 2 has no effect with --device=cuda: leave it out"));
  // What --print-config has printed is read again: defaults in a file are nobody's wish either.
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--steps=50"}, {"--validation-fraction=0"}, {"--model=mnist-cnn"}, {"--device=cuda"}})
    CHECK(complaint_of_file(settings_as_toml(read(arguments))) == "accepted");
}

TEST_CASE("files that are no settings files are refused with their line", "[settings]") {
  CHECK(complaint_of_file("steps = 1\nsteps = 2\n").starts_with(":2: "));
  CHECK(complaint_of_file("steps 1\n").starts_with(":1: "));
  CHECK(complaint_of_file("steps = 1\n\n[training]\nbatch = 2\n")
            .starts_with(":3: settings stand without sections"));
  CHECK(complaint_of_file("steps = [1]\n").starts_with(":1: steps wants a number"));
  CHECK(complaint_of_file("steps = 1979-05-27\n").starts_with(":1: steps wants a number"));
  CHECK(complaint_of_file("\"a\\nb\" = 1\n") == ":1: a name with control characters");
  CHECK(complaint({"--a\nb"}) == std::string("unknown option --a b") + help);
  CHECK(complaint_of_file("data = \"a\\u0000b\"\n").starts_with(":1: data holds a zero byte"));
  CHECK(complaint_of_file(std::string("steps = 1\0\n", 11)) == ": has control characters; not a text file");
  CHECK(complaint_of_file("steps = 1\nst\u00e9ps = 1\n") ==
        ":2: a letter beyond ASCII outside of quotation marks");
  CHECK(complaint_of_file(std::string((1 << 20) + 1, '\n')).find("longer than 1 MiB") != std::string::npos);
  CHECK(complaint_of_file("") == "accepted");
  const TemporaryFolder folder;
  CHECK(complaint({"--config", (folder / "missing").string()}).find("No such file") != std::string::npos);
  CHECK(complaint({"--config", folder.path().string()}).find("Is a directory") != std::string::npos);
}

TEST_CASE("the settings in force, printed, are a file that gives the same settings", "[settings]") {
  const TemporaryFolder folder;
  Options options = read({});
  options.data = "a\\b \"c\"\n1.50";
  options.output = "007";
  options.learning_rate = 0.1234567890123456789;
  options.min_learning_rate = 1e-300;
  options.adamw.beta2 = 0.9999999999;
  options.seed = ~std::uint64_t{0};
  options.steps = 1'000'000'000'000;
  options.deterministic = true;
  options.device = Device::cpu;
  const std::string path = (folder / "printed.toml").string();
  write_file(path, settings_as_toml(options));
  const Options again = read({"--config", path});
  const auto expected = settings_of(options), got = settings_of(again);
  REQUIRE(expected.size() == got.size());
  CHECK(expected.size() > 20);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(expected[i].name);
    CHECK(expected[i].value == got[i].value);
    CHECK(again.origins.count(got[i].name) == (got[i].value.empty() ? 0 : 1));  // what is set was in the file
  }
  CHECK(again.learning_rate == options.learning_rate);
  CHECK(again.seed == options.seed);
  CHECK(again.device == Device::cpu);
}

TEST_CASE("names near to others", "[settings]") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("steps", "setps") == 1);
  CHECK(edit_distance("ca", "abc") == 3);  // optimal string alignment: no letter is touched twice
  CHECK(nearest_name("wdth", {"heads", "width"}) == std::string("width"));
  CHECK_FALSE(nearest_name("x", {"a", "bb"}));
  const std::vector<std::string> long_names{"--learning-rate", "--checkpoint-every", "--beta1", "--beta2"};
  CHECK(nearest_name("--lr", long_names) == std::string("--learning-rate"));
  CHECK(nearest_name("--checkpoint", long_names) == std::string("--checkpoint-every"));
  CHECK_FALSE(nearest_name("--b", long_names));
  CHECK_FALSE(nearest_name("--", long_names));
  const std::vector<std::string> settings{"--batch",
                                          "--steps",
                                          "--eval-every",
                                          "--learning-rate",
                                          "--min-learning-rate",
                                          "--validation-tokens",
                                          "--validation-fraction"};
  CHECK(nearest_name("--batch-size", settings) == std::string("--batch"));
  CHECK(nearest_name("--max-steps", settings) == std::string("--steps"));
  CHECK(nearest_name("--eval-interval", settings) == std::string("--eval-every"));
  CHECK_FALSE(nearest_name("--rate", settings));
  CHECK_FALSE(nearest_name(std::string(10'000, 'a'), {"a"}));
}
