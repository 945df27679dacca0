// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/nccl_ids.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "communicator/nccl/nccl_runtime_connect.hpp"
#include "log.hpp"

namespace muster::detail {
namespace {

constexpr int default_ranks_per_id = 128;

ncclUniqueId make_id(const NcclLibrary& library, const CommunicatorGroup& group) {
  ncclUniqueId id;
  ncclResult_t const result = library.get_unique_id(&id);
  if (result != ncclSuccess) group.fail(ErrorCode::device, library.reason(result, nullptr));
  return id;
}

void append(control::Blob& blob, const ncclUniqueId& id) {
  auto const* const bytes = reinterpret_cast<const std::uint8_t*>(&id);
  blob.insert(blob.end(), bytes, bytes + sizeof id);
}

}  // namespace

int ranks_per_id() {
  const char* const text = std::getenv("MUSTER_NCCL_RANKS_PER_ID");
  if (text == nullptr || *text == '\0') return default_ranks_per_id;
  int number = 0;
  const char* const end = text + std::strlen(text);
  auto const [stop, bad] = std::from_chars(text, end, number);
  if (bad != std::errc{} || stop != end || number < 1) {
    throw Error(
        ErrorCode::environment,
        fmt::format("MUSTER_NCCL_RANKS_PER_ID='{}' must be an integer of at least 1, or unset", text));
  }
  return number;
}

std::vector<int> ranks_with_id(int size, int ids) {
  std::vector<int> ranks;
  int next = 0;
  for (int id = 0; id < ids; ++id) {
    ranks.push_back(next);
    next += size / ids + (id < size % ids ? 1 : 0);
  }
  return ranks;
}

std::vector<ncclUniqueId> exchange_ids(const NcclLibrary& library, const CommunicatorGroup& group,
                                       const Deadline& deadline) {
  int const per_id = ranks_per_id();
  auto const roots = ranks_with_id(group.size(), (group.size() + per_id - 1) / per_id);
  // Rank 0 puts a byte in front of its id: lazy_connect() of its NCCL.
  control::Blob mine;
  if (group.rank() == 0) mine.push_back(lazy_connect());
  if (std::find(roots.begin(), roots.end(), group.rank()) != roots.end())
    append(mine, make_id(library, group));

  control::Blob all = mine;
  const auto& plane = group.job().plane;
  if (plane && group.size() > 1 && roots.size() == 1) {
    all = plane->broadcast("NCCL id of '" + group.name() + "'", group.members(), group.members().front(),
                           mine, deadline.length());
  } else if (plane && roots.size() > 1) {
    auto const blobs =
        plane->gather("NCCL ids of '" + group.name() + "'", group.members(), mine, deadline.length());
    all.clear();
    for (const auto& blob : blobs) all.insert(all.end(), blob.begin(), blob.end());
  }
  // MUSTER_NCCL_RANKS_PER_ID may differ between ranks.
  if (all.size() != 1 + roots.size() * sizeof(ncclUniqueId)) {
    group.fail(ErrorCode::environment, fmt::format("received {} bytes instead of {} NCCL ids: set "
                                                   "MUSTER_NCCL_RANKS_PER_ID alike on all ranks, or on none",
                                                   all.size(), roots.size()));
  }
  if (all.front() != lazy_connect()) {
    group.fail(
        ErrorCode::environment,
        fmt::format("NCCL_RUNTIME_CONNECT is {} here and {} on rank 0, so that NCCL would wait forever: set "
                    "it alike on all ranks (also in /etc/nccl.conf and ~/.nccl.conf), or on none",
                    lazy_connect(), all.front()));
  }
  std::vector<ncclUniqueId> ids(roots.size());
  std::memcpy(ids.data(), all.data() + 1, all.size() - 1);
  log::debug("nccl: {} of '{}', {} ranks", ids.size() == 1 ? "one id" : fmt::format("{} ids", ids.size()),
             group.name(), group.size());
  return ids;
}

}  // namespace muster::detail
