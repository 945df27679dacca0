// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "catch.hpp"
#include "slurm/node_features.hpp"
#include "step/profiles.hpp"
#include "temporary_folder.hpp"

using namespace muster::spank;

namespace {
std::string to_string(const std::vector<muster::placement::Setting>& settings) {
  std::string text;
  for (const auto& setting : settings) text += setting.name + "=" + setting.value.value_or("-") + " ";
  return text;
}
}  // namespace

TEST_CASE("The matching profiles of a folder apply in the order of their names") {
  const TemporaryFolder tree;
  const std::string folder = tree.path().string() + "/muster.d";
  tree.write("sys/class/dmi/id/product_name", "p5.48xlarge\n");
  tree.write("sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
  tree.write("sys/class/dmi/id/chassis_asset_tag", "Amazon EC2\n");
  tree.write("muster.d/50-b.conf", "[match]\ninstance = \"p5*\"\n[environment]\nA = \"50\"\n");
  tree.write("muster.d/10-a.conf",
             "[match]\nvendor = \"Amazon EC2\"\n[environment]\nA = \"10\"\nB = \"10\"\n");
  tree.write("muster.d/60-c.conf", "[match]\npartition = \"debug\"\n[environment]\nA = \"60\"\n");
  tree.write("muster.d/70-d.conf",
             "[match]\nchassis = \"Amazon*\"\ncluster = \"c\"\n[environment]\nD = \"70\"\n");
  tree.write("muster.d/README", "not a profile");
  tree.write("muster.d/.hidden.conf", "not a profile");
  const JobIdentity job{"c", "gpu", "n1"};
  const auto load = [&] { return load_profiles(folder, job, tree.path().string(), getuid()); };
  CHECK(to_string(load().settings) == "A=50 B=10 D=70 ");
  CHECK(load().warnings.empty());
  CHECK(load_profiles(tree.path().string() + "/none", job).warnings.empty());

  // Invalid files are left out with a warning, the others apply.
  tree.write("muster.d/20-broken.conf", "[environment]\nA = 1\n");
  tree.write("muster.d/80-open.conf", "[environment]\nA = \"80\"\n");
  REQUIRE(chmod((folder + "/80-open.conf").c_str(), 0664) == 0);
  auto found = load();
  CHECK(to_string(found.settings) == "A=50 B=10 D=70 ");
  REQUIRE(found.warnings.size() == 2);
  CHECK(found.warnings[0].starts_with("profile " + folder + "/20-broken.conf, line 2: A must be a text"));
  CHECK(found.warnings[1].starts_with("profile " + folder + "/80-open.conf is ignored"));

  // Files of another user, and a folder that others may write to.
  found = load_profiles(folder, job, tree.path().string(), getuid() + 1);
  CHECK(found.settings.empty());
  CHECK(found.warnings.size() == 1);
  if (getuid() != 0) {  // root reads everything
    REQUIRE(chmod(folder.c_str(), 0300) == 0);
    CHECK(load().warnings.size() == 1);
  }
  REQUIRE(chmod(folder.c_str(), 0777) == 0);
  CHECK(load().settings.empty());
  CHECK(load().warnings.size() == 1);
}

TEST_CASE("A node's features come from its line in slurm.conf or an included file") {
  const TemporaryFolder tree;
  tree.write("slurm.conf",
             "ClusterName=c # NodeName=n1 Features=no\n"
             "NodeName=DEFAULT CPUs=4 Feature=plain\n"
             "nodename=n[0-3,9] \\\n  Gres=gpu:8 FEATURES=h100,ib\n"
             "NodeName=n4 CPUs=8\n"
             "include nodes.conf\n");
  tree.write("nodes.conf", "NodeName=r[0-1]n[0-3] Features=\"a b,c\"\nInclude slurm.conf\n");
  const std::string conf = tree.path().string() + "/slurm.conf";
  using Features = std::vector<std::string>;
  CHECK(node_features(conf, "n3") == Features{"h100", "ib"});
  CHECK(node_features(conf, "n9") == Features{"h100", "ib"});
  CHECK(node_features(conf, "n4") == Features{"plain"});
  CHECK(node_features(conf, "r1n2") == Features{"a b", "c"});
  CHECK(node_features(conf, "n5").empty());
  CHECK(node_features(tree.path().string() + "/none", "n1").empty());
}

TEST_CASE("A slurm.conf that names millions of nodes is read up to a limit") {
  const TemporaryFolder tree;
  const auto write = [&](int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i) text += "NodeName=n[0-65535]\n";
    tree.write("slurm.conf", text + "NodeName=last Features=fast\n");
    return node_features(tree.path().string() + "/slurm.conf", "last").size();
  };
  CHECK(write(10) == 1);
  CHECK(write(100) == 0);
}
