// SPDX-License-Identifier: Apache-2.0
// The output folder's lock and the status file after a failure.
#include "catch.hpp"
#include "content.hpp"
#include "muster/error.hpp"
#include "run/output_folder.hpp"
#include "temporary_folder.hpp"

using namespace muster;

TEST_CASE("a failure is written to status.json only by the run that has the folder", "[output_folder]") {
  const TemporaryFolder folder;
  Options options;
  options.output = (folder / "run").string();
  OutputFolder first(options), second(options);
  first.open();
  CHECK_THROWS_AS(second.open(), Error);
  second.write_failure(Error(ErrorCode::usage, "another run has the folder"), {});
  CHECK_FALSE(std::filesystem::exists(folder / "run/status.json"));
  first.write_failure(Error(ErrorCode::lost_rank, "rank 1 was lost"), {{}, 7, 9, {}});
  CHECK(content(folder / "run/status.json").find("\"state\":\"lost\",\"step\":7,\"steps\":9") !=
        std::string::npos);
  first.write_failure(std::runtime_error("parameters differ"), {});
  CHECK(content(folder / "run/status.json").find("\"state\":\"failed\"") != std::string::npos);
}

TEST_CASE("a failure before the folder is open is written to the file of --status", "[output_folder]") {
  const TemporaryFolder folder;
  Options options;
  options.output = "/dev/full/run";
  options.status = (folder / "status").string();
  OutputFolder output(options);
  CHECK_THROWS_AS(output.open(), Error);
  output.write_failure(Error(ErrorCode::deadline, "rank 1 is missing"), {});
  CHECK(content(folder / "status").find("\"state\":\"lost\"") != std::string::npos);
}

TEST_CASE("a rank that comes late to the end of its run leaves the status of the others", "[output_folder]") {
  const TemporaryFolder folder;
  Options options;
  options.output = (folder / "run").string();
  OutputFolder lost(options), next(options);
  lost.open();
  lost.write_status({RunStatus::State::running, 0, 9, {}});
  lost.write_failure(Error(ErrorCode::lost_rank, "ranks 1 to 3 are silent"),
                     {{}, 3, 9, {}});  // it is cut off
  next.take_over(3);                   // the lost rank still has the lock
  lost.update_status({RunStatus::State::running, 4, 9, {}});
  CHECK(content(folder / "run/status.json").find("{\"state\":\"running\",\"step\":4,") == 0);
  next.write_status({RunStatus::State::finished, 9, 9, {}});
  const auto finished = content(folder / "run/status.json");
  CHECK_THROWS_WITH(lost.take_over(3),
                    Catch::Matchers::ContainsSubstring("went on without this one and ended the run"));
  lost.update_status({RunStatus::State::running, 3, 9, {}});
  lost.write_failure(Error(ErrorCode::lost_rank, "rank 1 was lost"), {{}, 3, 9, {}});
  CHECK(content(folder / "run/status.json") == finished);
  next.take_over(9);  // a rank is lost after the results were written
}

TEST_CASE("a run that begins anew in a folder replaces the status of the last one", "[output_folder]") {
  const TemporaryFolder folder;
  Options options;
  options.output = (folder / "run").string();
  std::filesystem::create_directory(options.output);
  write_status(folder / "run/status.json", {RunStatus::State::finished, 9, 9, {}});
  OutputFolder output(options);
  output.open();
  output.write_failure(std::runtime_error("the data are missing"), {});
  CHECK(content(folder / "run/status.json").find("\"state\":\"failed\"") != std::string::npos);
}
