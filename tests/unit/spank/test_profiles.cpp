// SPDX-License-Identifier: Apache-2.0
#include "step/profiles.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "../placement/machines.hpp"
#include "catch.hpp"
#include "slurm/node_features.hpp"

using namespace muster::spank;
using muster::placement::test::TemporaryFolder;

namespace {
std::string text_of(const std::vector<muster::placement::Setting>& settings) {
  std::string text;
  for (const auto& setting : settings) text += setting.name + "=" + setting.value.value_or("-") + " ";
  return text;
}
}  // namespace

TEST_CASE("Profiles of a folder: those that fit, in the order of their names") {
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
  CHECK(text_of(load().settings) == "A=50 B=10 D=70 ");
  CHECK(load().complaints.empty());
  CHECK(load_profiles(tree.path().string() + "/none", job).complaints.empty());

  // A broken one is left out and said, the others hold.
  tree.write("muster.d/20-broken.conf", "[environment]\nA = 1\n");
  tree.write("muster.d/80-open.conf", "[environment]\nA = \"80\"\n");
  REQUIRE(chmod((folder + "/80-open.conf").c_str(), 0664) == 0);
  auto found = load();
  CHECK(text_of(found.settings) == "A=50 B=10 D=70 ");
  REQUIRE(found.complaints.size() == 2);
  CHECK(found.complaints[0].starts_with("profile " + folder + "/20-broken.conf, line 2: A wants a text"));
  CHECK(found.complaints[1].starts_with("profile " + folder + "/80-open.conf does not count"));

  // One that belongs to another user, and a folder that others may write to.
  found = load_profiles(folder, job, tree.path().string(), getuid() + 1);
  CHECK(found.settings.empty());
  CHECK(found.complaints.size() == 1);
  if (getuid() != 0) {  // root reads everything
    REQUIRE(chmod(folder.c_str(), 0300) == 0);
    CHECK(load().complaints.size() == 1);
  }
  REQUIRE(chmod(folder.c_str(), 0777) == 0);
  CHECK(load().settings.empty());
  CHECK(load().complaints.size() == 1);
}

TEST_CASE("A node's features are those of its line in slurm.conf and what that includes") {
  const TemporaryFolder tree;
  tree.write("slurm.conf",
             "ClusterName=c # NodeName=n1 Features=no\n"
             "NodeName=DEFAULT CPUs=4 Feature=plain\n"
             "nodename=n[0-3,9] \\\n  Gres=gpu:8 FEATURES=h100,ib\n"
             "NodeName=n4 CPUs=8\n"
             "include nodes.conf\n");
  tree.write("nodes.conf", "NodeName=r[0-1]n[0-3] Features=\"a b,c\"\nInclude slurm.conf\n");
  const std::string conf = tree.path().string() + "/slurm.conf";
  using Words = std::vector<std::string>;
  CHECK(node_features(conf, "n3") == Words{"h100", "ib"});
  CHECK(node_features(conf, "n9") == Words{"h100", "ib"});
  CHECK(node_features(conf, "n4") == Words{"plain"});
  CHECK(node_features(conf, "r1n2") == Words{"a b", "c"});
  CHECK(node_features(conf, "n5").empty());
  CHECK(node_features(tree.path().string() + "/none", "n1").empty());
}
