// SPDX-License-Identifier: Apache-2.0
#include "communicator/mpi/make_host_all_reduce.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "communicator/host/hierarchical_all_reduce.hpp"
#include "communicator/host/inter_host_all_reduce.hpp"
#include "communicator/host/segment_address.hpp"
#include "communicator/host/shm_all_reduce.hpp"
#include "log.hpp"
#include "roster/roster.hpp"

namespace muster::detail {
namespace {

struct HostRanks {
  std::vector<std::vector<int>> by_host;  // each host's ranks; hosts in the order of their lowest rank
  std::size_t host = 0;                   // index of this rank's host

  const std::vector<int>& local_ranks() const { return by_host[host]; }
  HierarchicalAllReduce::Shape shape() const {
    auto const fewer = [](const auto& one, const auto& other) { return one.size() < other.size(); };
    auto const [smallest, largest] = std::minmax_element(by_host.begin(), by_host.end(), fewer);
    return HierarchicalAllReduce::Shape::choose(by_host.size(), static_cast<int>(smallest->size()),
                                                static_cast<int>(largest->size()));
  }
  // The rank of each host with this local rank.
  std::vector<int> at(int local_rank) const {
    std::vector<int> found;
    for (const auto& ranks : by_host) found.push_back(ranks[static_cast<std::size_t>(local_rank)]);
    return found;
  }
};

HostRanks group_by_host(const CommunicatorGroup& group) {
  const auto& roster = group.job().roster;
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> known;
  HostRanks found;
  for (int r = 0; r < group.size(); ++r) {
    const Hello& hello = roster[static_cast<std::size_t>(group.members()[static_cast<std::size_t>(r)])];
    auto const [at, is_new] = known.emplace(
        std::pair<std::string_view, std::string_view>(hello.host, hello.boot_id), found.by_host.size());
    if (is_new) found.by_host.emplace_back();
    found.by_host[at->second].push_back(r);
    if (r == group.rank()) found.host = at->second;
  }
  return found;
}

// The host leader creates the segment, the other ranks of the host open it. Null on failure.
std::unique_ptr<SharedSegment> exchange_segment(PointToPoint& messages, const std::vector<int>& host,
                                                int local_rank, std::size_t bytes) {
  PointToPoint::Batch batch;
  SegmentAddress address{};
  std::unique_ptr<SharedSegment> segment;
  if (local_rank != 0) {
    messages.begin_recv(address.data(), sizeof(address), host.front(), batch);
    messages.wait(batch);
    return shared_memory_enabled() ? open_segment(address, bytes) : nullptr;
  }
  if (shared_memory_enabled()) segment = SharedSegment::create(bytes);
  address = make_address(segment.get());
  for (std::size_t i = 1; i < host.size(); ++i)
    messages.begin_send(address.data(), sizeof(address), host[i], batch);
  messages.wait(batch);
  return segment;
}

}  // namespace

std::unique_ptr<HostAllReduce> make_host_all_reduce(CommunicatorGroup& group, MPI_Comm comm,
                                                    MpiRequests& requests) {
  if (group.size() == 1) return nullptr;
  auto const wait_scope = group.wait_scope();
  group.begin_setup("setting up");
  auto const all = group_by_host(group);
  auto const& local_ranks = all.local_ranks();
  auto const hosts = all.by_host.size();
  auto const local_size = static_cast<int>(local_ranks.size());
  auto const local_rank =
      static_cast<int>(std::find(local_ranks.begin(), local_ranks.end(), group.rank()) - local_ranks.begin());
  auto const shape = all.shape();
  std::unique_ptr<SharedSegment> segment;
  bool const one_rank_per_host = hosts == group.members().size();  // every rank has a host of its own
  auto const bytes =
      hosts == 1 ? ShmAllReduce::bytes_for(local_size) : HierarchicalAllReduce::bytes_for(local_size, shape);
  if (!one_rank_per_host) segment = exchange_segment(requests, local_ranks, local_rank, bytes);
  // All ranks use shared memory, or none does.
  int have = one_rank_per_host ? shared_memory_enabled() : segment != nullptr;
  const MpiLibrary& mpi = requests.mpi();
  requests.run([&](MPI_Request* request) {
    return mpi.iallreduce(MPI_IN_PLACE, &have, 1, mpi.int_type, mpi.min, comm, request);
  });
  log::debug("open-mpi: '{}', {} ranks on {} hosts, {}", group.name(), group.size(), hosts,
             have != 0 ? "reduces in shared memory" : "reduces by messages alone");
  if (have == 0) {
    std::vector<int> ranks(static_cast<std::size_t>(group.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    return std::make_unique<InterHostAllReduce>(requests, std::move(ranks),
                                                static_cast<std::size_t>(group.rank()), group.size());
  }
  if (segment) segment->close_descriptor();
  auto const on_spin = [&requests](unsigned polls) { requests.on_shm_spin(polls); };
  auto const on_mismatch = [&requests] { requests.fail_mismatch(); };
  // All ranks must decide alike: the size of a short all-reduce depends on it.
  if (hosts == 1)
    return std::make_unique<ShmAllReduce>(std::move(segment), local_rank, local_size,
                                          bootstrap::any_shares_cores(group.job().roster, group.members()),
                                          on_spin, on_mismatch);
  std::unique_ptr<InterHostAllReduce> channel;
  if (local_rank < shape.channels)
    channel = std::make_unique<InterHostAllReduce>(requests, all.at(local_rank), all.host, group.size());
  if (one_rank_per_host) return channel;
  return std::make_unique<HierarchicalAllReduce>(std::move(segment), local_rank, local_size, shape,
                                                 std::move(channel), requests.yields(), on_spin, on_mismatch);
}

}  // namespace muster::detail
