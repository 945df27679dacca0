// SPDX-License-Identifier: Apache-2.0
// How the ranks of a communicator come to share memory.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "communicator/mpi/mpi_communicator.hpp"
#include "log.hpp"

namespace muster::detail {
namespace {

// What a host's leader tells its other ranks: process id, descriptor, device, inode; zeroes when it has no
// memory to share.
using Offer = std::array<std::int64_t, 4>;

bool wanted() {
  const char* const value = std::getenv("MUSTER_SHARED_MEMORY");
  return value == nullptr || std::string_view(value) != "off";
}

Offer offer_of(const SharedSegment& segment) {
  const auto& handle = segment.handle();
  return {getpid(), handle.descriptor, static_cast<std::int64_t>(handle.device),
          static_cast<std::int64_t>(handle.inode)};
}

std::unique_ptr<SharedSegment> take(const Offer& offer, std::size_t bytes) {
  if (offer[0] == 0) return nullptr;
  SharedSegment::Handle const handle{static_cast<int>(offer[1]), static_cast<unsigned long long>(offer[2]),
                                     static_cast<unsigned long long>(offer[3])};
  return SharedSegment::open(static_cast<pid_t>(offer[0]), handle, bytes);
}

struct HostRanks {
  std::vector<std::vector<int>> ranks_of;  // each host's ranks; hosts in the order of their lowest
  std::size_t host = 0;                    // index of this rank's host

  const std::vector<int>& here() const { return ranks_of[host]; }
  HierarchicalAllReduce::Shape shape() const {
    auto const fewer = [](const auto& one, const auto& other) { return one.size() < other.size(); };
    auto const [fewest, most] = std::minmax_element(ranks_of.begin(), ranks_of.end(), fewer);
    return HierarchicalAllReduce::Shape::of(ranks_of.size(), static_cast<int>(fewest->size()),
                                     static_cast<int>(most->size()));
  }
  // The rank of each host at one place among its ranks.
  std::vector<int> at(int place) const {
    std::vector<int> found;
    for (const auto& ranks : ranks_of) found.push_back(ranks[static_cast<std::size_t>(place)]);
    return found;
  }
};

HostRanks host_ranks(const CommunicatorGroup& group) {
  const auto& roster = group.job().roster;
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> known;
  HostRanks found;
  for (int r = 0; r < group.size(); ++r) {
    const Hello& hello = roster[static_cast<std::size_t>(group.members()[static_cast<std::size_t>(r)])];
    auto const [at, is_new] = known.emplace(
        std::pair<std::string_view, std::string_view>(hello.host, hello.boot_id), found.ranks_of.size());
    if (is_new) found.ranks_of.emplace_back();
    found.ranks_of[at->second].push_back(r);
    if (r == group.rank()) found.host = at->second;
  }
  return found;
}

}  // namespace

void MpiCommunicator::share_memory() {
  if (size() == 1) return;
  auto const inside = group_.inside();
  group_.enter_set_up("setting up");
  auto const all = host_ranks(group_);
  auto const& here = all.here();
  auto const hosts = all.ranks_of.size();
  auto const local = static_cast<int>(here.size());
  auto const place = static_cast<int>(std::find(here.begin(), here.end(), rank()) - here.begin());
  auto const shape = all.shape();
  std::unique_ptr<SharedSegment> segment;
  bool const alone = hosts == ranks();  // every rank on its host
  auto const bytes = hosts == 1 ? ShmAllReduce::bytes_for(local) : HierarchicalAllReduce::bytes_for(local, shape);
  if (!alone) segment = exchange_segment(here, place, bytes);
  // All or none.
  int have = alone ? wanted() : segment != nullptr;
  run([&](MPI_Request* request) {
    return MPI_Iallreduce(MPI_IN_PLACE, &have, 1, MPI_INT, MPI_MIN, comm_, request);
  });
  log::debug("open-mpi: '{}', {} ranks on {} hosts, {}", group_.name(), size(), hosts,
             have != 0 ? "reduces in shared memory" : "reduces through Open MPI");
  if (have == 0) return;
  if (segment) segment->close_descriptor();
  auto const patience = [this](unsigned looks) { be_patient(looks); };
  if (hosts == 1) {
    shared_ = std::make_unique<ShmAllReduce>(std::move(segment), place, local, state_->yield, patience);
    return;
  }
  PointToPoint& messages = *this;
  std::unique_ptr<InterHostAllReduce> lane;
  if (place < shape.lanes)
    lane = std::make_unique<InterHostAllReduce>(messages, all.at(place), all.host, size());
  if (alone) {
    leaders_ = std::move(lane);
  } else {
    hosts_ = std::make_unique<HierarchicalAllReduce>(std::move(segment), place, local, shape, std::move(lane),
                                              state_->yield, patience);
  }
}

// The leader makes it, the others of the host open it. Null on failure.
std::unique_ptr<SharedSegment> MpiCommunicator::exchange_segment(const std::vector<int>& host, int place,
                                                                 std::size_t bytes) {
  Offer offer{};
  std::unique_ptr<SharedSegment> segment;
  if (place != 0) {
    begin_recv(offer.data(), sizeof(offer), host.front(), requests_);
    wait();
    return wanted() ? take(offer, bytes) : nullptr;
  }
  if (wanted()) segment = SharedSegment::create(bytes);
  if (segment) offer = offer_of(*segment);
  for (std::size_t i = 1; i < host.size(); ++i) begin_send(offer.data(), sizeof(offer), host[i], requests_);
  wait();
  return segment;
}

}  // namespace muster::detail
