// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/shm_collectives.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "communicator/host/segment_address.hpp"
#include "log.hpp"
#include "roster/roster.hpp"

namespace muster::detail {
namespace {

// Of the buffers for what a rank does not have or does not want.
constexpr std::size_t piece_bytes = 1u << 20;
// Polls of a rank with a core of its own before it reads the clock and yields the core.
constexpr unsigned spins = 200;
// Polls before a rank sleeps between them. A rank that waits for so long waits for computations.
constexpr unsigned polls_before_sleep = 2000;
constexpr unsigned polls_before_preferred_sleep = 2;

// The first rank creates the segment, the others open it. Null on all ranks if one of them has none.
std::unique_ptr<SharedSegment> share_segment(CommunicatorGroup& group, const std::atomic<bool>& interrupted,
                                             std::size_t bytes) {
  auto const gather = [&](const char* what, const control::Blob& mine) {
    return group.job().plane->gather(std::string(what) + " of communicator '" + group.name() + "'",
                                     group.members(), mine, group.deadline().remaining(), &interrupted);
  };
  std::unique_ptr<SharedSegment> segment;
  if (group.rank() == 0 && shared_memory_enabled()) segment = SharedSegment::create(bytes);
  auto address = make_address(segment.get());
  auto const* const first = reinterpret_cast<const std::uint8_t*>(address.data());
  auto const addresses = gather("shared memory", {first, first + sizeof(address)});
  if (addresses.front().size() != sizeof(address)) return nullptr;  // rank 0 of the group is lost
  std::memcpy(address.data(), addresses.front().data(), sizeof(address));
  if (group.rank() != 0 && shared_memory_enabled()) segment = open_segment(address, bytes);
  auto const have = gather("use of shared memory", {static_cast<std::uint8_t>(segment != nullptr)});
  bool const all_have = std::all_of(
      have.begin(), have.end(), [](const control::Blob& one) { return !one.empty() && one.front() == 1; });
  if (!all_have) return nullptr;
  segment->close_descriptor();
  return segment;
}

}  // namespace

std::unique_ptr<ShmCollectives> ShmCollectives::make(CommunicatorGroup& group,
                                                     const std::atomic<bool>& interrupted,
                                                     const std::atomic<bool>& prefer_sleep) {
  if (group.size() == 1 || !bootstrap::is_one_host(group.job().roster, group.members())) return nullptr;
  auto segment = share_segment(group, interrupted, ShmAllReduce::bytes_for(group.size()));
  log::debug("control plane: '{}', {} ranks on one host, {}", group.name(), group.size(),
             segment ? "collectives in shared memory" : "no shared memory");
  if (!segment) return nullptr;
  return std::unique_ptr<ShmCollectives>(
      new ShmCollectives(group, interrupted, prefer_sleep, std::move(segment)));
}

ShmCollectives::ShmCollectives(CommunicatorGroup& group, const std::atomic<bool>& interrupted,
                               const std::atomic<bool>& prefer_sleep, std::unique_ptr<SharedSegment> segment)
    : group_(group),
      interrupted_(interrupted),
      prefer_sleep_(prefer_sleep),
      shares_cores_(bootstrap::any_shares_cores(group.job().roster, group.members())),
      all_reduce_(
          std::move(segment), group.rank(), group.size(), shares_cores_,
          [this](unsigned polls) { on_spin(polls); }, [this] { group_.fail_mismatch(); }) {}

void ShmCollectives::on_spin(unsigned polls) {
  if (interrupted_)
    throw Error(ErrorCode::usage, std::string(group_.operation()) + " was interrupted by its own rank");
  group_.check();
  if (!shares_cores_ && polls < spins) return;
  group_.warn_if_stalled();
  if (group_.deadline().passed()) group_.fail_stalled(group_.timeout());
  if (polls >= (prefer_sleep_ ? polls_before_preferred_sleep : polls_before_sleep))
    CoreYield::sleep();
  else
    core_.yield();
}

bool ShmCollectives::can_run(const CollectiveCall& call) const {
  if (all_reduce_.is_short(call)) return true;
  return !call.is_message() && call.kind != OperationKind::all_to_all &&
         call.kind != OperationKind::all_to_all_v;
}

void ShmCollectives::run(const CollectiveCall& call) {
  if (all_reduce_.is_short(call)) return all_reduce_.run_short(call, group_.digest());
  auto const* const in = static_cast<const std::byte*>(call.in);
  auto* const out = static_cast<std::byte*>(call.out);
  bool const is_peer = group_.rank() == call.peer;
  switch (call.kind) {
    case OperationKind::all_reduce:
      return reduce(in, out, call.count, call.type, call.reduction);
    case OperationKind::reduce:
      return reduce(in, is_peer ? out : nullptr, call.count, call.type, call.reduction);
    case OperationKind::broadcast:
      return broadcast(out, out, call.count * size_of(call.type), call.peer);
    case OperationKind::all_gather:
      return all_gather(call, [&](int) { return call.count; });
    case OperationKind::all_gather_v:
      return all_gather(call, [&](int rank) { return call.counts[static_cast<std::size_t>(rank)]; });
    case OperationKind::reduce_scatter:
      return reduce_scatter(call, [&](int) { return call.count; });
    case OperationKind::reduce_scatter_v:
      return reduce_scatter(call, [&](int rank) { return call.counts[static_cast<std::size_t>(rank)]; });
    default:
      throw_not_run(call.kind);
  }
}

void ShmCollectives::reduce(const std::byte* in, std::byte* out, std::size_t count, DataType type,
                            Reduction reduction) {
  auto const piece = piece_bytes / size_of(type);
  for (std::size_t at = 0; at < count; at += piece) {
    auto const offset = at * size_of(type);
    all_reduce_.all_reduce(in + offset, out == nullptr ? nullptr : out + offset, std::min(piece, count - at),
                           type, reduction, group_.digest());
  }
}

void ShmCollectives::broadcast(const std::byte* in, std::byte* out, std::size_t bytes, int root) {
  bool const is_root = group_.rank() == root;
  std::vector<std::byte> const zeros(is_root ? 0 : std::min(bytes, piece_bytes));
  for (std::size_t at = 0; at < bytes; at += piece_bytes)
    all_reduce_.all_reduce(is_root ? in + at : zeros.data(), out + at, std::min(piece_bytes, bytes - at),
                           DataType::uint8, Reduction::sum, group_.digest());
}

void ShmCollectives::all_gather(const CollectiveCall& call, const std::function<std::size_t(int)>& count_of) {
  auto* part = static_cast<std::byte*>(call.out);
  for (int root = 0; root < group_.size(); ++root) {
    auto const bytes = count_of(root) * size_of(call.type);
    broadcast(static_cast<const std::byte*>(call.in), part, bytes, root);
    part += bytes;
  }
}

void ShmCollectives::reduce_scatter(const CollectiveCall& call,
                                    const std::function<std::size_t(int)>& count_of) {
  std::vector<std::byte> own(count_of(group_.rank()) * size_of(call.type));  // `out` may be a part of `in`
  auto const* part = static_cast<const std::byte*>(call.in);
  for (int owner = 0; owner < group_.size(); ++owner) {
    auto const count = count_of(owner);
    reduce(part, owner == group_.rank() ? own.data() : nullptr, count, call.type, call.reduction);
    part += count * size_of(call.type);
  }
  if (!own.empty()) std::memcpy(call.out, own.data(), own.size());
}

}  // namespace muster::detail
