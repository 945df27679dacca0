// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "catch.hpp"
#include "data/cifar.hpp"
#include "data/corpus.hpp"
#include "data/idx.hpp"
#include "make_data.hpp"
#include "muster/error.hpp"
#include "temporary_folder.hpp"
#include "trainer/data/refusal.hpp"

using namespace muster;

namespace {

int make(std::vector<std::string> arguments) {
  std::vector<const char*> argv{"make-data"};
  for (const auto& argument : arguments) argv.push_back(argument.c_str());
  return make_data(static_cast<int>(argv.size()), argv.data());
}

}  // namespace

TEST_CASE("digits are generated as MNIST's four files, the same for the same seed", "[make-data]") {
  const TemporaryFolder folder;
  const auto digits = [&](const std::string& name, const std::string& seed) {
    REQUIRE(make({"digits", "--output", folder / name, "--train=30", "--held-out", "7", "--seed", seed}) ==
            0);
    return data::ImageSet::read(folder / name, 28, 10);
  };
  const auto a = digits("a", "1"), same = digits("same", "1"), other = digits("other", "2");
  CHECK(a.training->count() == 30);
  CHECK(a.held_out->count() == 7);
  CHECK(a.training->fingerprint(0) == same.training->fingerprint(0));
  CHECK(a.held_out->fingerprint(0) == same.held_out->fingerprint(0));
  CHECK(a.training->fingerprint(0) != other.training->fingerprint(0));
  // Validation images differ from training images.
  CHECK_FALSE(
      std::equal(a.training->planes(0).begin(), a.training->planes(0).end(), a.held_out->planes(0).begin()));
  CHECK_THROWS_AS(make({"digits", "--output", folder / "a"}), Error);  // existing files are not replaced
  CHECK(data::ImageSet::read(folder / "a", 28, 10).training->count() == 30);
}

TEST_CASE("shapes are generated as CIFAR's files, the same for the same seed", "[make-data]") {
  const TemporaryFolder folder;
  const auto shapes = [&](const std::string& name, const std::string& classes, const std::string& seed) {
    REQUIRE(make({"cifar", "--output", folder / name, "--train=31", "--held-out", "7", "--classes", classes,
                  "--seed", seed}) == 0);
    return data::read_cifar(folder / name);
  };
  for (const std::string classes : {"10", "100"}) {
    const auto a = shapes("a" + classes, classes, "1"), same = shapes("same" + classes, classes, "1"),
               other = shapes("other" + classes, classes, "2");
    CHECK(std::to_string(a.classes) == classes);
    CHECK(a.training->count() == 31);
    CHECK(a.held_out->count() == 7);
    CHECK(a.training->fingerprint(0) == same.training->fingerprint(0));
    CHECK(a.training->fingerprint(0) != other.training->fingerprint(0));
    CHECK_FALSE(std::equal(a.training->planes(0).begin(), a.training->planes(0).end(),
                           a.held_out->planes(0).begin()));
    CHECK_THROWS_AS(make({"cifar", "--classes", classes, "--output", folder / ("a" + classes)}), Error);
  }
}

TEST_CASE("a language is generated as text or as shards of the same tokens", "[make-data]") {
  const TemporaryFolder folder;
  const auto made = [&](const std::string& format) {
    REQUIRE(make({"language", "--output", folder / format, "--format", format, "--tokens=5000",
                  "--symbols=5"}) == 0);
    return data::Corpus::read(folder / format, 0.1);
  };
  const auto text = made("text"), shards = made("shards");
  CHECK_FALSE(text.has_shards());
  CHECK(shards.has_shards());
  CHECK(shards.training().size() == 4500);
  CHECK(shards.held_out_size() == 499);
  CHECK(text.training().size() == 4500);
  std::vector<data::Token> letters(4500), tokens(4500);
  text.training().copy(0, 4500, 256, letters.data());
  shards.training().copy(0, 4500, 5, tokens.data());
  for (std::size_t i = 0; i < tokens.size(); ++i) REQUIRE(letters[i] == 'a' + tokens[i]);
}

TEST_CASE("make-data refuses impossible requests in one line", "[make-data]") {
  const TemporaryFolder folder;
  const std::string to = "--output=" + (folder / "x").string();
  for (const auto& arguments : std::vector<std::vector<std::string>>{{},
                                                                     {"music"},
                                                                     {"digits", to, "--train=0"},
                                                                     {"digits", to, "--seed=-1"},
                                                                     {"language", to, "--symbols=1"},
                                                                     {"language", to, "--symbols=66"},
                                                                     {"language", to, "--order=9"},
                                                                     {"language", to, "--format=bin"},
                                                                     {"language", "digits", to},
                                                                     {"language", to, "--tokens=5"}}) {
    CHECK_FALSE(usage_error_text([&] { make(arguments); }).empty());
  }
  CHECK_FALSE(std::filesystem::exists(folder / "x"));
  CHECK(usage_error_text([&] { make({}); }) ==
        "name one of: digits, cifar, pictures, language (see muster-train make-data --help)");
  CHECK(usage_error_text([&] {
          make({"language", "--order="});
        }) == "--order needs a value (see muster-train make-data language --help)");
  CHECK(usage_error_text([&] { make({"digts"}); }) ==
        "unexpected argument 'digts'; did you mean digits? (see muster-train make-data --help)");
  CHECK(usage_error_text([&] { make({"more"}); }) ==
        "unexpected argument 'more'; name one of: digits, cifar, pictures, language (see muster-train "
        "make-data --help)");
  CHECK(usage_error_text([&] {
          make({"digits", to, "--trian=5"});
        }) == "unknown option --trian; did you mean --train? (see muster-train make-data digits --help)");
  CHECK_THROWS_AS(make({"digits", "--output=/dev/null/x", "--train=1"}), Error);
}
