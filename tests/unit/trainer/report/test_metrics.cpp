// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.hpp"
#include "content.hpp"
#include "muster/error.hpp"
#include "report/metrics.hpp"
#include "temporary_folder.hpp"

using namespace muster;

namespace {

StepRecord make_step(int number, double loss) {
  StepRecord record{number, loss, 1e-3, 0.5, 200, 0.25, 0.05};
  if (number % 2 == 0) record.mfu = 0.375;
  return record;
}

}  // namespace

TEST_CASE("metrics are JSON lines; resuming drops the lines after the checkpoint", "[metrics]") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  {
    Metrics metrics(path, false, 0);
    for (int step = 1; step <= 5; ++step) metrics.training(make_step(step, 6.0 - step));
    metrics.validation(5, 1.25, 100);
    metrics.flush();
  }
  std::istringstream lines(content(path));
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    const auto record = nlohmann::json::parse(line);
    ++count;
    CHECK(record.at("step") == std::min(count, 5));
    if (count == 6) {
      CHECK(record.at("validation_loss") == 1.25);
      continue;
    }
    CHECK(record.at("train_loss") == 6.0 - count);
    CHECK(record.at("tokens_per_second") == 800);
    CHECK(record.at("step_ms") == 250);
    CHECK(record.at("exposed_ms") == 50);
    CHECK(record.contains("mfu") == (count % 2 == 0));
  }
  CHECK(count == 6);

  write_file(path, content(path) + "{\"step\": 3, broken\n");
  Metrics resumed(path, true, 3);
  const Metrics::History& history = resumed.history();
  REQUIRE(history.training_loss.size() == 3);
  CHECK(history.training_loss[2].y == 3.0);
  CHECK(history.tokens_per_second[1].y == 800);
  CHECK(history.exposed_share[0].y == Approx(0.2));
  CHECK(history.validation_loss.empty());
  resumed.training(make_step(4, 9.0));
  resumed.flush();
  const std::string text = content(path);
  CHECK(history.training_loss.back().y == 9.0);
  CHECK(std::count(text.begin(), text.end(), '\n') == 4);
  CHECK(text.find("9.000000") != std::string::npos);
}

TEST_CASE("accuracy and skipped updates are kept, also when a run is resumed", "[metrics]") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  const auto check = [](const Metrics::History& history) {
    REQUIRE(history.validation_accuracy.size() == 1);
    CHECK(history.validation_accuracy[0].y == 0.75);
    REQUIRE(history.skipped.size() == 1);
    CHECK(history.skipped[0].x == 2);
  };
  Metrics metrics(path, false, 0);
  metrics.skipped(2);
  metrics.validation(3, 1.0, 400, 300);
  metrics.flush();
  check(metrics.history());
  check(Metrics(path, true, 3).history());
}

TEST_CASE("a validation that is repeated after the last step adds no second line", "[metrics]") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  {
    Metrics metrics(path, false, 0);
    metrics.validation(5, 1.23456789, 100);
    metrics.flush();
  }
  const std::string once = content(path);
  Metrics again(path, true, 5);
  CHECK_FALSE(again.validation(5, 1.23456789, 100));
  again.flush();
  CHECK(content(path) == once);
  CHECK(again.history().validation_loss.size() == 1);
  CHECK(again.validation(5, 1.3, 50));  // with other held-out data
  again.flush();
  CHECK(content(path).size() > once.size());
}

TEST_CASE("a validation loss that is not finite is null, because JSON has no such numbers", "[metrics]") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  Metrics metrics(path, false, 0);
  metrics.validation(1, std::numeric_limits<double>::quiet_NaN(), 100);
  metrics.flush();
  CHECK(nlohmann::json::parse(content(path)).at("validation_loss").is_null());
}

TEST_CASE("when metrics cannot be written, an error is thrown", "[metrics]") {
  CHECK_THROWS_AS(Metrics("/proc/metrics.jsonl", false, 0), Error);
}
