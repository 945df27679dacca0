// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <cstdlib>
#include <stdexcept>

#include "catch.hpp"

using namespace muster::spank;

TEST_CASE("--muster takes auto, report and off, and nothing else") {
  CHECK(parse_mode("auto") == Mode::automatic);
  CHECK(parse_mode("report") == Mode::report);
  CHECK(parse_mode("off") == Mode::off);
  for (const char* wrong : {"", "Auto", "on", "auto ", "reports", "1"})
    CHECK_FALSE(parse_mode(wrong).has_value());
}

TEST_CASE("plugstack.conf arguments are strict") {
  CHECK(parse_settings({}).default_mode == Mode::off);
  CHECK(parse_settings({"default=auto"}).default_mode == Mode::automatic);
  CHECK(parse_settings({"default=off"}).default_mode == Mode::off);
  for (const char* wrong :
       {"auto", "default", "default=", "default=on", "default=report", "defualt=auto", "default = auto"})
    CHECK_THROWS_AS(parse_settings({wrong}), std::invalid_argument);
}

TEST_CASE("A mistake in plugstack.conf is named in one line with what to use instead") {
  try {
    parse_settings({"default=maybe"});
    FAIL("accepted");
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    CHECK(text.find("maybe") != std::string::npos);
    CHECK(text.find("default=auto or default=off") != std::string::npos);
    CHECK(text.find('\n') == std::string::npos);
  }
}

TEST_CASE("What the user said wins over the administrator's default, and is told apart from it") {
  const Settings on{Mode::automatic};
  CHECK(resolve(std::nullopt, on).mode == Mode::automatic);
  CHECK_FALSE(resolve(std::nullopt, on).asked);
  CHECK(resolve(Mode::off, on).mode == Mode::off);
  CHECK(resolve(Mode::report, Settings{}).mode == Mode::report);
  CHECK(resolve(Mode::report, Settings{}).asked);
  CHECK(resolve(std::nullopt, Settings{}).mode == Mode::off);
}

TEST_CASE("The wish of the surrounding job is found under both names that Slurm uses") {
  CHECK(inherited_mode(nullptr) == std::nullopt);
  CHECK(inherited_mode("") == Mode::automatic);
  CHECK(inherited_mode("(null)") == Mode::automatic);
  CHECK(inherited_mode("off") == Mode::off);
  CHECK(inherited_mode("nonsense") == std::nullopt);

  CHECK(inherited_mode_from_environment() == std::nullopt);
  for (const char* name :
       {"_SLURM_SPANK_OPTION_muster_muster", "SLURM_SPANK__SLURM_SPANK_OPTION_muster_muster"}) {
    setenv(name, "report", 1);
    CHECK(inherited_mode_from_environment() == Mode::report);
    unsetenv(name);
  }
}
