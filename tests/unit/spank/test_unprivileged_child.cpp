// SPDX-License-Identifier: Apache-2.0
#include "hooks/unprivileged_child.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "catch.hpp"
#include "content.hpp"
#include "has.hpp"

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

std::string line_of(const std::string& status, const std::string& name) {
  const auto start = status.find("\n" + name + ":") + 1;
  return status.substr(start, status.find('\n', start) - start);
}

bool has_no_child() { return waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD; }

}  // namespace

TEST_CASE("A child hands back a number and bytes, and nothing of it is left") {
  const std::string long_text(300000, 'x');  // several times what a pipe holds
  const auto answer = run_unprivileged([&] { return ChildAnswer{7, long_text}; });
  CHECK(answer.code == 7);
  CHECK(answer.bytes == long_text);
  CHECK(run_unprivileged([] { return ChildAnswer{}; }).bytes.empty());
  CHECK(has_no_child());
}

TEST_CASE("A child has the job's user and group for good, no capabilities, and gets no new privileges") {
  if (geteuid() != 0) return;  // only root can take another's ids
  std::string status, regained;
  {
    const EffectiveUser user;
    REQUIRE(user.changed());
    status = run_unprivileged([] { return ChildAnswer{0, "\n" + content("/proc/self/status")}; }).bytes;
    const auto tries = [] {
      const bool any = seteuid(0) == 0 || setuid(0) == 0 || setresuid(0, 0, 0) == 0 || setegid(0) == 0;
      return ChildAnswer{any ? 1 : 0, ""};
    };
    CHECK(run_unprivileged(tries).code == 0);
  }
  const std::string ids = "\t12345\t12345\t12345\t12345";
  CHECK(line_of(status, "Uid") == "Uid:" + ids);
  CHECK(line_of(status, "Gid") == "Gid:" + ids);
  for (const std::string name : {"CapInh", "CapPrm", "CapEff", "CapAmb"})
    CHECK(line_of(status, name) == name + ":\t0000000000000000");
  CHECK(line_of(status, "NoNewPrivs") == "NoNewPrivs:\t1");
  CHECK(geteuid() == 0);
}

TEST_CASE("A child that crashes, throws, says too much or never ends is one line, and is gone") {
  const auto run = [](auto work) {
    ChildLimits limits;
    limits.time = 200ms;
    limits.bytes = 1000;
    run_unprivileged(work, limits);
  };
  CHECK_THROWS_WITH(run([]() -> ChildAnswer { _exit(255); }), ContainsSubstring("has failed"));
  CHECK_THROWS_WITH(run([]() -> ChildAnswer { throw 1; }), ContainsSubstring("has failed"));
  CHECK_THROWS_WITH(run([]() -> ChildAnswer { throw std::bad_alloc(); }),
                    ContainsSubstring("not enough memory"));
  CHECK_THROWS_WITH(run([]() -> ChildAnswer {
                      raise(SIGKILL);
                      return {};
                    }),
                    ContainsSubstring("signal 9"));
  CHECK_THROWS_WITH(run([] {
                      return ChildAnswer{0, std::string(1001, 'x')};
                    }),
                    ContainsSubstring("1000 bytes"));
  const auto start = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH(run([]() -> ChildAnswer {
                      while (true) pause();
                    }),
                    ContainsSubstring("not answered in time"));
  // One that has closed its end and stays.
  CHECK_THROWS_WITH(run([]() -> ChildAnswer {
                      for (int descriptor = 3; descriptor < 1024; ++descriptor) close(descriptor);
                      while (true) pause();
                    }),
                    ContainsSubstring("has not ended"));
  CHECK(std::chrono::steady_clock::now() - start < 5s);
  CHECK(has_no_child());
}
