// SPDX-License-Identifier: Apache-2.0
#include "slurm_alone.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace muster::bench {

using placement::Core;
using placement::Node;

namespace {

using Socket = std::vector<const Core*>;

/// The sockets and their cores in Slurm's order: hwloc's, along the machine's tree.
std::vector<Socket> find_sockets(const Node& node) {
  std::map<int, Socket> by_package;
  for (const auto& core : node.cores) by_package[core.package].push_back(&core);
  std::vector<Socket> sockets;
  for (auto& [package, cores] : by_package) {
    std::sort(cores.begin(), cores.end(), [](const Core* a, const Core* b) {
      return std::tuple(a->domain, a->cpus.first()) < std::tuple(b->domain, b->cpus.first());
    });
    sockets.push_back(std::move(cores));
  }
  return sockets;
}

enum class Bind { sockets, cores, threads, nothing };

/// The entity that task/affinity binds to by default.
Bind automatic_binding(const std::vector<Socket>& sockets, const CpuSet& allotted, int cpus) {
  int whole_sockets = 0, part_sockets = 0, cores = 0;
  for (const auto& socket : sockets) {
    const auto used = std::count_if(socket.begin(), socket.end(),
                                    [&](const Core* core) { return core->cpus.intersects(allotted); });
    cores += static_cast<int>(used);
    if (used == static_cast<long>(socket.size()))
      ++whole_sockets;
    else if (used > 0)
      ++part_sockets;
  }
  if (cpus == whole_sockets && part_sockets == 0) return Bind::sockets;
  if (cpus == cores) return Bind::cores;
  return cpus == allotted.size() ? Bind::threads : Bind::nothing;
}

/// `cpus`, and all other allotted CPUs on the same sockets or cores.
CpuSet widen(const std::vector<Socket>& sockets, const CpuSet& allotted, const CpuSet& cpus, Bind bind) {
  CpuSet wide = cpus;
  for (const auto& socket : sockets) {
    CpuSet all;
    for (const Core* core : socket) {
      all |= core->cpus;
      if (bind == Bind::cores && core->cpus.intersects(cpus)) wide |= core->cpus & allotted;
    }
    if (bind == Bind::sockets && all.intersects(cpus)) wide |= all & allotted;
  }
  return wide;
}

}  // namespace

CpuSet allocate_like_slurm(const Node& node, int tasks, int cpus_per_task) {
  const auto sockets = find_sockets(node);
  std::vector<std::size_t> kept;
  std::size_t threads = 1;
  for (const auto& socket : sockets) {
    kept.push_back(socket.size());
    for (const Core* core : socket) threads = std::max(threads, static_cast<std::size_t>(core->cpus.size()));
  }
  // Remove surplus cores one by one, from each socket in turn.
  const auto wanted =
      (static_cast<std::size_t>(tasks) * static_cast<std::size_t>(cpus_per_task) + threads - 1) / threads;
  for (std::size_t s = 0, left = node.cores.size(); left > wanted; s = (s + 1) % sockets.size()) {
    if (kept[s] == 0) continue;
    --kept[s];
    --left;
  }
  CpuSet allotted;
  for (std::size_t s = 0; s < sockets.size(); ++s) {
    for (std::size_t i = 0; i < kept[s]; ++i) allotted |= sockets[s][i]->cpus;
  }
  return allotted;
}

std::vector<CpuSet> bind_like_slurm(const Node& node, const CpuSet& allotted, int tasks, int cpus_per_task) {
  const auto sockets = find_sockets(node);
  const Bind bind = automatic_binding(sockets, allotted, tasks * cpus_per_task);
  std::vector<CpuSet> bound(static_cast<std::size_t>(tasks), allotted);
  if (bind == Bind::nothing) return bound;

  std::vector<std::vector<int>> free;  // by socket: its allotted CPUs, core by core
  std::size_t threads = 1;
  for (const auto& socket : sockets) {
    auto& list = free.emplace_back();
    for (const Core* core : socket) {
      const auto cpus = (core->cpus & allotted).to_vector();
      threads = std::max(threads, cpus.size());
      list.insert(list.end(), cpus.begin(), cpus.end());
    }
  }
  const auto per_task = static_cast<std::size_t>(cpus_per_task);
  const std::size_t left_idle = per_task < threads ? threads - per_task : per_task % threads;
  std::vector<std::size_t> next(free.size(), 0);
  std::size_t s = 0;
  for (auto& cpus : bound) {
    CpuSet taken;
    for (std::size_t n = 0; n < per_task; ++n) {
      // If a socket has no free CPU, use the next, also in the middle of a task.
      for (std::size_t tried = 0; next[s] >= free[s].size() && tried < free.size(); ++tried)
        s = (s + 1) % free.size();
      if (next[s] >= free[s].size()) break;
      taken.add(free[s][next[s]++]);
    }
    if (bind == Bind::cores) next[s] += left_idle;
    s = (s + 1) % free.size();  // cyclic: the next task goes to the next socket
    cpus = widen(sockets, allotted, taken, bind);
  }
  return bound;
}

}  // namespace muster::bench
