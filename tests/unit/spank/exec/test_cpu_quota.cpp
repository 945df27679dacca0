// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "exec/cpu_quota.hpp"
#include "temporary_folder.hpp"

using muster::spank::read_cpu_quota;

namespace {

std::optional<double> read(const TemporaryFolder& root) { return read_cpu_quota(root.path().string()); }

}  // namespace

TEST_CASE("the CPU quota is that of the process's group or of one around it, whichever is lower") {
  const TemporaryFolder root;
  CHECK_FALSE(read(root));
  root.write("proc/self/cgroup", "0::/pods/pod1/container\n");
  CHECK_FALSE(read(root));
  root.write("sys/fs/cgroup/pods/pod1/container/cpu.max", "max 100000\n");
  CHECK_FALSE(read(root));
  root.write("sys/fs/cgroup/pods/pod1/cpu.max", "400000 100000\n");
  CHECK(read(root) == 4.0);
  root.write("sys/fs/cgroup/pods/pod1/container/cpu.max", "125000 50000\n");
  CHECK(read(root) == 2.5);
  root.write("sys/fs/cgroup/pods/cpu.max", "100000 100000\n");
  CHECK(read(root) == 1.0);
}

TEST_CASE("in a container the CPU quota is that of the mount's root") {
  const TemporaryFolder root;
  root.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  for (const char* path : {"/", "/kubepods/of/the/host", "/../sibling"}) {
    CAPTURE(path);
    root.write("proc/self/cgroup", std::string("0::") + path + "\n");
    CHECK(read(root) == 2.0);
  }
}

TEST_CASE("the CPU quota of cgroup v1, also beside v2") {
  const TemporaryFolder root;
  root.write("proc/self/cgroup", "9:name=systemd:/\n3:cpuset:/a\n2:cpu,cpuacct:/a:b\n0::/\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/a:b/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/a:b/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(read(root));
  root.write("sys/fs/cgroup/cpu,cpuacct/a:b/cpu.cfs_quota_us", "150000\n");
  CHECK(read(root) == 1.5);
  root.write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  CHECK(read(root) == 0.5);
}

TEST_CASE("files of control groups that hold something else are no quota") {
  const TemporaryFolder root;
  for (const char* groups : {"", "0", "0:", "0::", "::::\n\n", "x:y:z\n"}) {
    CAPTURE(groups);
    root.write("proc/self/cgroup", groups);
    CHECK_FALSE(read(root));
  }
  root.write("proc/self/cgroup", "0::/\n");
  for (const char* text : {"", "100000", "-5 100000", "100000 0", "x y", "1 2 3", "max"}) {
    CAPTURE(text);
    root.write("sys/fs/cgroup/cpu.max", text);
    CHECK_FALSE(read(root));
  }
}
