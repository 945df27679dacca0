// SPDX-License-Identifier: Apache-2.0
#include "metrics.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.hpp"
#include "muster/error.hpp"
#include "temporary_folder.hpp"

using namespace muster;

TEST_CASE("metrics are JSON lines; resuming drops what came after the checkpoint", "[metrics]") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  {
    Metrics metrics(path, false, 0);
    for (int step = 1; step <= 5; ++step) metrics.training(step, 6.0 - step, 1e-3, 0.5, 1000, 0);
    metrics.validation(5, 1.25, 100);
    metrics.flush();
  }
  std::istringstream lines(read_file(path));
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    const auto record = nlohmann::json::parse(line);
    ++count;
    CHECK(record.at("step") == std::min(count, 5));
    if (count == 6) CHECK(record.at("validation_loss") == 1.25);
  }
  CHECK(count == 6);

  write_file(path, read_file(path) + "{\"step\": 3, broken\n");
  Metrics resumed(path, true, 3);
  CHECK(resumed.training_losses().size() == 3);
  CHECK(resumed.validation_losses().empty());
  resumed.training(4, 9.0, 1e-3, 0.5, 1000, 0);
  resumed.flush();
  const std::string text = read_file(path);
  CHECK(std::count(text.begin(), text.end(), '\n') == 4);
  CHECK(text.find("9.000000") != std::string::npos);
}

TEST_CASE("metrics that cannot be written are an error", "[metrics]") {
  CHECK_THROWS_AS(Metrics("/proc/metrics.jsonl", false, 0), Error);
}
