// SPDX-License-Identifier: Apache-2.0
// The model of Slurm without Muster, compared with measurements on a real Slurm and with its source.
#include "catch.hpp"
#include "slurm_alone.hpp"
#include "spank/placement/machines.hpp"

using muster::CpuSet;
using namespace muster::placement;
using namespace muster::placement::test;
using namespace muster::bench;

namespace {

std::vector<CpuSet> tasks_on(const Node& node, int tasks, int cpus_per_task) {
  return bind_like_slurm(node, allocate_like_slurm(node, tasks, cpus_per_task), tasks, cpus_per_task);
}

/// For each task the domains of its CPUs, such as {0} or {0, 1}.
std::vector<std::vector<int>> find_domains(const Node& node, const std::vector<CpuSet>& tasks) {
  std::vector<std::vector<int>> result;
  for (const auto& cpus : tasks) {
    auto& list = result.emplace_back();
    for (const auto& domain : node.domains) {
      if (domain.cpus.intersects(cpus)) list.push_back(domain.id);
    }
  }
  return result;
}

using Domains = std::vector<std::vector<int>>;

}  // namespace

// Measured with Slurm 22.05.8 and cgroup v2 in a virtual machine of this shape, GPU i on domain i. With 4
// CPUs a task, tasks 1 and 2 were on each other's domain; with 2 CPUs a task, tasks 1, 2 and 3 were on the
// wrong domain.
TEST_CASE("Model of Slurm alone: two packages of two domains of two cores with two threads, as measured") {
  const Node node = make_node({2, 2, 2, 2});
  CHECK(find_domains(node, tasks_on(node, 4, 4)) == Domains{{0}, {2}, {1}, {3}});
  CHECK(find_domains(node, tasks_on(node, 4, 2)) == Domains{{0}, {2}, {0}, {2}});
}

TEST_CASE("Model of Slurm alone: tasks go to the sockets in turn") {
  const Node node = make_node({2, 1, 8, 1});
  CHECK(find_domains(node, tasks_on(node, 8, 2)) == Domains{{0}, {1}, {0}, {1}, {0}, {1}, {0}, {1}});
  CHECK(tasks_on(node, 8, 2)[2].to_list() == "2-3");
}

// Measured: the CPU_IDs of `scontrol show job -d` with slurmctld 22.05.8, for jobs with --gpus-per-task=1.
TEST_CASE(
    "Model of Slurm alone: the controller takes cores evenly from all sockets, the odd ones from the last, "
    "as measured") {
  const auto list = [](const Shape& shape, int tasks, int cpus) {
    return allocate_like_slurm(make_node(shape), tasks, cpus).to_list();
  };
  const Shape two_sockets{2, 1, 8, 1}, four_sockets{4, 1, 3, 1};
  CHECK(list(two_sockets, 3, 1) == "0,8-9");
  CHECK(list(two_sockets, 6, 1) == "0-2,8-10");
  CHECK(list(two_sockets, 3, 2) == "0-2,8-10");
  CHECK(list(two_sockets, 3, 4) == "0-5,8-13");
  CHECK(list(two_sockets, 5, 3) == "0-6,8-15");
  CHECK(list(two_sockets, 2, 7) == "0-6,8-14");
  CHECK(list(four_sockets, 6, 1) == "0,3,6-7,9-10");
  CHECK(list(four_sockets, 2, 5) == "0-1,3-4,6-11");
  // 4 threads a core. The measured CPU_IDs were 0-35,88-123, because Slurm numbers the threads of a core one
  // after the other: 9 cores of each socket.
  CHECK(list({2, 1, 22, 4}, 6, 12) == "0-8,22-30,44-52,66-74,88-96,110-118,132-140,154-162");
  CHECK(allocate_like_slurm(make_node(two_sockets), 99, 1) == make_node(two_sockets).cpus());
}

TEST_CASE("Model of Slurm alone: a socket without cores left is skipped") {
  Node node = make_node({2, 1, 6, 1});
  node.cores.erase(node.cores.begin(), node.cores.begin() + 5);
  CHECK(allocate_like_slurm(node, 2, 1).to_list() == "6-7");
}

TEST_CASE("Model of Slurm alone: a task that fits on no socket is split") {
  const Node node = make_node({2, 1, 3, 1});
  CHECK(find_domains(node, tasks_on(node, 3, 2)) == Domains{{0}, {1}, {0, 1}});
}

TEST_CASE("Model of Slurm alone: no task is bound if the requested CPUs differ from the allotted ones") {
  const Node node = make_node({2, 1, 8, 2});
  for (const auto& cpus : bind_like_slurm(node, node.cpus(), 4, 2)) CHECK(cpus == node.cpus());
  // More tasks than CPUs.
  for (const auto& cpus : tasks_on(make_node({1, 1, 2, 1}), 4, 1)) CHECK(cpus.to_list() == "0-1");
}

TEST_CASE(
    "Model of Slurm alone: tasks of one CPU get a thread, a core or a socket, depending on the number of "
    "tasks") {
  const Node threads = make_node({1, 1, 4, 2});  // CPUs 0 and 4 are one core
  CHECK(tasks_on(threads, 4, 1)[1].to_list() == "4");
  const Node cores = make_node({1, 1, 4, 1});
  CHECK(tasks_on(cores, 2, 1)[1].to_list() == "1");
  const Node whole = make_node({2, 1, 4, 1});
  CHECK(bind_like_slurm(whole, whole.cpus(), 2, 1)[1].to_list() == "4-7");
  const Node half_used = make_node({1, 1, 4, 2});  // as many tasks as cores, all threads allotted
  CHECK(bind_like_slurm(half_used, half_used.cpus(), 4, 1)[1].to_list() == "1,5");
}

TEST_CASE(
    "Model of Slurm alone: every task has its CPUs, disjoint and within the allotment, on random machines") {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const Node node = random_node(random);
    const int threads = node.cores.front().cpus.size();
    const int tasks = std::uniform_int_distribution<int>(1, static_cast<int>(node.cores.size()))(random);
    const int per_task = static_cast<int>(node.cores.size()) / tasks * threads;
    const CpuSet allotted = allocate_like_slurm(node, tasks, per_task);
    CHECK(allotted.size() == tasks * per_task);
    CpuSet used;
    for (const auto& cpus : bind_like_slurm(node, allotted, tasks, per_task)) {
      CHECK(cpus.size() == per_task);
      CHECK(cpus.is_subset_of(allotted));
      CHECK_FALSE(cpus.intersects(used));
      used |= cpus;
    }
  }
}
