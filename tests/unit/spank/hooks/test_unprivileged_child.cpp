// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "catch.hpp"
#include "content.hpp"
#include "has.hpp"
#include "hooks/unprivileged_child.hpp"
#include "soon.hpp"

using namespace muster::spank;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr uid_t somebody = 12345;

/// As slurmstepd in user_init: root, with the effective ids of the job's user.
class EffectiveUser {
 public:
  EffectiveUser() : changed_(setegid(somebody) == 0 && seteuid(somebody) == 0) {}
  ~EffectiveUser() {
    if (changed_ && (seteuid(0) != 0 || setegid(0) != 0)) abort();
  }
  bool changed() const { return changed_; }

 private:
  bool changed_;
};

std::string find_line(const std::string& status, const std::string& name) {
  const auto start = status.find("\n" + name + ":") + 1;
  return status.substr(start, status.find('\n', start) - start);
}

bool has_no_child() { return waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD; }

}  // namespace

TEST_CASE("A child returns a number and bytes, and no process is left") {
  const std::string long_text(300000, 'x');  // several times the capacity of a pipe
  const auto result = run_unprivileged([&] { return ChildResult{7, long_text}; });
  CHECK(result.code == 7);
  CHECK(result.bytes == long_text);
  CHECK(run_unprivileged([] { return ChildResult{}; }).bytes.empty());
  CHECK(has_no_child());
}

TEST_CASE("A child permanently has the job's user and group, no capabilities, and gets no new privileges") {
  if (geteuid() != 0) return;  // only root can change its ids
  std::string status, regained;
  {
    const EffectiveUser user;
    REQUIRE(user.changed());
    status = run_unprivileged([] { return ChildResult{0, "\n" + content("/proc/self/status")}; }).bytes;
    const auto tries = [] {
      const bool any = seteuid(0) == 0 || setuid(0) == 0 || setresuid(0, 0, 0) == 0 || setegid(0) == 0;
      return ChildResult{any ? 1 : 0, ""};
    };
    CHECK(run_unprivileged(tries).code == 0);
  }
  const std::string ids = "\t12345\t12345\t12345\t12345";
  CHECK(find_line(status, "Uid") == "Uid:" + ids);
  CHECK(find_line(status, "Gid") == "Gid:" + ids);
  for (const std::string name : {"CapInh", "CapPrm", "CapEff", "CapAmb"})
    CHECK(find_line(status, name) == name + ":\t0000000000000000");
  CHECK(find_line(status, "NoNewPrivs") == "NoNewPrivs:\t1");
  CHECK(geteuid() == 0);
}

TEST_CASE(
    "When a child crashes, throws, returns too much or never ends, the error is one line and it is reaped") {
  const auto run = [](auto work, std::chrono::milliseconds time = 20s) {
    ChildLimits limits;
    limits.time = time;
    limits.bytes = 1000;
    run_unprivileged(work, limits);
  };
  CHECK_THROWS_WITH(run([]() -> ChildResult { _exit(255); }), ContainsSubstring("has failed"));
  CHECK_THROWS_WITH(run([]() -> ChildResult { throw 1; }), ContainsSubstring("has failed"));
  CHECK_THROWS_WITH(run([]() -> ChildResult { throw std::bad_alloc(); }),
                    ContainsSubstring("not enough memory"));
  CHECK_THROWS_WITH(run([]() -> ChildResult {
                      raise(SIGKILL);
                      return {};
                    }),
                    ContainsSubstring("signal 9"));
  CHECK_THROWS_WITH(run([] {
                      return ChildResult{0, std::string(1001, 'x')};
                    }),
                    ContainsSubstring("1000 bytes"));
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH(run(
                        []() -> ChildResult {
                          while (true) pause();
                        },
                        200ms),
                    ContainsSubstring("not answered in time"));
  // A child that has closed its end of the pipe and does not end.
  CHECK_THROWS_WITH(run(
                        []() -> ChildResult {
                          for (int descriptor = 3; descriptor < 1024; ++descriptor) close(descriptor);
                          while (true) pause();
                        },
                        3s),
                    ContainsSubstring("has not ended"));
  CHECK(std::chrono::steady_clock::now() - start < soon);
  CHECK(has_no_child());
}
