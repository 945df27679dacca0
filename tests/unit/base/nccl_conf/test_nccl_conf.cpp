// SPDX-License-Identifier: Apache-2.0
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "catch.hpp"
#include "nccl_conf/nccl_conf.hpp"

using muster::parse_nccl_conf;
using muster::read_nccl_conf;

namespace {
using Settings = std::map<std::string, std::string>;
}

TEST_CASE("nccl.conf is parsed as by NCCL") {
  CHECK(parse_nccl_conf(
            "# a comment\nNCCL_IB_HCA==mlx5_0,mlx5_1\n#NCCL_DEBUG=WARN\nNCCL_IB_TC=41\nNCCL_IB_TC=42\n"
            "no sign\n=nameless\nNCCL_NET=\nUCX_TLS=rc\n NCCL_ALGO=Ring\nNCCL_PROTO =LL\nNCCL_LAST=a b ") ==
        Settings{{"NCCL_IB_HCA", "=mlx5_0,mlx5_1"},
                 {"NCCL_IB_TC", "41"},
                 {"NCCL_NET", ""},
                 {"UCX_TLS", "rc"},
                 {" NCCL_ALGO", "Ring"},
                 {"NCCL_PROTO ", "LL"},
                 {"NCCL_LAST", "a b "}});
  CHECK(parse_nccl_conf("").empty());
  CHECK(parse_nccl_conf("NCCL_ALGO").empty());
  CHECK(parse_nccl_conf(std::string_view("NCCL_ALGO=Ring\0Tree\nNCCL_NET\0=IB\n", 33)) ==
        Settings{{"NCCL_ALGO", "Ring"}});
  CHECK(parse_nccl_conf("NCCL_X=" + std::string(5000, 'x')).at("NCCL_X").size() == 1023);
  CHECK(parse_nccl_conf(std::string(5000, 'x') + "=1").begin()->first.size() == 1023);
}

TEST_CASE("A missing nccl.conf, and a folder in its place, have no variables") {
  CHECK(read_nccl_conf("/proc/self/none").empty());
  CHECK(read_nccl_conf("/etc").empty());
}

TEST_CASE("The user's file is NCCL_CONF_FILE, else in the home of the user database") {
  const passwd* const user = getpwuid(getuid());
  REQUIRE(user != nullptr);
  const char* const home = getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  setenv("HOME", "/elsewhere", 1);
  CHECK(muster::find_user_nccl_conf("") == std::string(user->pw_dir) + "/.nccl.conf");
  CHECK(muster::find_user_nccl_conf("own.conf") == "own.conf");
  setenv("HOME", before.c_str(), 1);
}
