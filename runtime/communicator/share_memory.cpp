// SPDX-License-Identifier: Apache-2.0
// How the ranks of a communicator come to share memory.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "communicator/mpi_communicator.hpp"
#include "log.hpp"

namespace muster::detail {
namespace {

// What rank 0 tells the others: process id, descriptor, device, inode; zeroes when it has no memory to share.
using Offer = std::array<std::int64_t, 4>;

bool wanted() {
  const char* const value = std::getenv("MUSTER_SHARED_MEMORY");
  return value == nullptr || std::string_view(value) != "off";
}

bool on_one_host(const Group& group) {
  const auto& roster = group.job().roster;
  const Hello& first = roster[static_cast<std::size_t>(group.members().front())];
  return std::all_of(group.members().begin(), group.members().end(), [&](int rank) {
    const Hello& hello = roster[static_cast<std::size_t>(rank)];
    return hello.host == first.host && hello.boot_id == first.boot_id;
  });
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

}  // namespace

void MpiCommunicator::share_memory() {
  if (size() == 1 || !on_one_host(group_)) return;
  group_.enter("setting up");
  auto const bytes = SharedAllReduce::bytes_for(size());
  std::unique_ptr<SharedSegment> segment;
  Offer offer{};
  if (rank() == 0 && wanted()) segment = SharedSegment::create(bytes);
  if (segment) offer = offer_of(*segment);
  run([&](MPI_Request* request) {
    return MPI_Ibcast(offer.data(), static_cast<int>(offer.size()), MPI_INT64_T, 0, comm_, request);
  });
  if (rank() != 0 && wanted()) segment = take(offer, bytes);
  // All or none.
  int have = segment ? 1 : 0;
  run([&](MPI_Request* request) {
    return MPI_Iallreduce(MPI_IN_PLACE, &have, 1, MPI_INT, MPI_MIN, comm_, request);
  });
  log::debug("open-mpi: the {} ranks of '{}' share {}", size(), group_.name(),
             have != 0 ? "memory" : "no memory");
  if (have == 0) return;
  segment->close_descriptor();
  shared_ = std::make_unique<SharedAllReduce>(std::move(segment), rank(), size(), state_->yield,
                                              [this](unsigned looks) { be_patient(looks); });
}

}  // namespace muster::detail
