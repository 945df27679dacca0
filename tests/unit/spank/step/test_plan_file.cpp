// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "catch.hpp"
#include "content.hpp"
#include "step/plan_file.hpp"
#include "temporary_folder.hpp"

using namespace muster::spank;

namespace {

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

const NodeRoot& node_root() {
  static NodeRoot root;
  root.hold();
  return root;
}

}  // namespace

TEST_CASE("A plan file is named after job, step and host") {
  const auto [requested_path, single_node, path] = GENERATE(table<std::string, bool, std::string>({
      {"", true, "muster-7.2-n0.json"},
      {"", false, "muster-7.2-n0.json"},
      {"plan.json", true, "plan.json"},
      {"plan.json", false, "plan-n0.json"},
      {"/a.b/plan", false, "/a.b/plan-n0"},
      {".plan", false, ".plan-n0"},
      {"%j/%s-%N.json", false, "7/2-n0.json"},
      {"%%N%x%", false, "%N%x%-n0"},
      {"out/", false, "out/muster-7.2-n0.json"},
  }));
  CHECK(plan_file_path({requested_path, 7, 2, "n0", single_node}) == path);
}

TEST_CASE("A plan file is complete or absent, and replaces regular files only") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "plan.json";
  PlanFile(path).write("one", 0022, node_root());
  CHECK(content(path) == "one");
  PlanFile(path).write("two", 0022, node_root());
  CHECK(content(path) == "two");
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0644);
  CHECK(files_in(folder.path()) == 1);

  const std::string other = folder.write("other", "precious");
  folder.link("link", other);
  const std::string pipe = folder.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const std::string link = folder.path() / "link", itself = folder.path();
  for (const auto& odd : {link, pipe, itself})
    CHECK_THROWS_WITH(
        PlanFile(odd).write("text", 0022, node_root()),
        Catch::Matchers::ContainsSubstring("not a regular file") && Catch::Matchers::ContainsSubstring(odd));
  CHECK(content(other) == "precious");
  CHECK(files_in(folder.path()) == 4);
}

TEST_CASE("A plan file has the mode that the user's umask allows") {
  CHECK(parse_umask("0077") == 0077);
  CHECK(parse_umask("002") == 0002);
  CHECK(parse_umask("0000") == 0);
  for (const char* none : {"", "0x7", "8", "-1", "7777", "022 ", "99999999999999999999"})
    CHECK(parse_umask(none) == 0022);
  CHECK(parse_umask(std::nullopt) == 0022);

  const TemporaryFolder folder;
  const std::string path = folder.path() / "plan.json";
  for (const mode_t mask : {0077, 0002, 0}) {
    PlanFile(path).write("text", mask, node_root());
    struct stat status {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == (0666 & ~mask));
  }
}

TEST_CASE("When a plan file cannot be written, the error is one line and no file is left") {
  CHECK_THROWS_WITH(PlanFile("/nowhere/plan.json").write("text", 0022, node_root()),
                    "the plan cannot be written to /nowhere/plan.json: No such file or directory");
  // /proc stands for a file system that is full or refuses new files.
  CHECK_THROWS_WITH(PlanFile("/proc/plan.json").write("text", 0022, node_root()),
                    Catch::Matchers::ContainsSubstring("/proc/plan.json"));
}

TEST_CASE(
    "When a task is in a container, its plan file is written to the node's folder, with links resolved "
    "there") {
  if (geteuid() != 0) return;  // only root can change its root folder
  const TemporaryFolder folder;
  folder.write("real/file", "");
  folder.write("container/file", "");
  folder.link("link", folder.path() / "real");
  const PlanFile file(folder.path() / "link" / "plan.json");
  const PlanFile nowhere(folder.path() / "none" / "plan.json");
  const NodeRoot& root = node_root();
  const pid_t task = fork();
  if (task == 0) {
    if (chroot((folder.path() / "container").c_str()) != 0 || chdir("/") != 0) _exit(1);
    try {
      file.write("text", 0022, root);
      nowhere.write("text", 0022, root);
    } catch (const std::exception& error) {
      _exit(std::string(error.what()).find("the node has no such folder") == std::string::npos ? 2 : 0);
    }
    _exit(3);
  }
  int status = 0;
  REQUIRE(waitpid(task, &status, 0) == task);
  CHECK(status == 0);
  CHECK(content(folder.path() / "real" / "plan.json") == "text");
}
