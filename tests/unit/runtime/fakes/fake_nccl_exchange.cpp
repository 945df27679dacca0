// SPDX-License-Identifier: Apache-2.0
#include "fake_nccl_exchange.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>

namespace {

constexpr std::size_t slot_bytes = std::size_t{16} << 20;  // the file has holes where nothing was written
constexpr std::size_t queued_messages = 4;                 // of a sender

}  // namespace

struct FakeExchange::Head {
  std::atomic<std::uint32_t> joined;
  std::atomic<std::uint64_t> arrivals;  // at all barriers so far
  // A message outside of groups.
  struct Message {
    std::atomic<int> to;   // until it is received: the receiver's rank + 1
    std::uint64_t number;  // of this sender's messages to this receiver
    std::size_t bytes;
  };
  std::array<std::array<Message, queued_messages>, 64> messages;  // by sender
};

FakeExchange::FakeExchange(std::string path, int rank, int ranks)
    : path_(std::move(path)),
      rank_(rank),
      ranks_(ranks),
      size_(slot_bytes * (1 + (1 + queued_messages) * static_cast<std::size_t>(ranks))) {
  int const file = open(path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  void* memory = MAP_FAILED;
  if (file >= 0 && ftruncate(file, static_cast<off_t>(size_)) == 0)
    memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  if (memory == MAP_FAILED) throw std::runtime_error("the fake NCCL cannot use " + path_);
  head_ = static_cast<Head*>(memory);  // zeros, which are the counters' start
  ++head_->joined;
}

FakeExchange::~FakeExchange() { munmap(head_, size_); }

bool FakeExchange::complete() const { return head_->joined == static_cast<std::uint32_t>(ranks_); }

std::byte* FakeExchange::slot(int rank) const {
  return reinterpret_cast<std::byte*>(head_) + slot_bytes * (1 + static_cast<std::size_t>(rank));
}

template <typename Condition>
bool FakeExchange::wait_until(Condition condition) const {
  while (!condition()) {
    if (cancelled_) return false;
    std::this_thread::sleep_for(std::chrono::microseconds{20});
  }
  return true;
}

ncclResult_t FakeExchange::barrier() {
  // A cancelled rank does not arrive: the others would continue without the lost ranks.
  if (cancelled_) return ncclRemoteError;
  auto const due = ++barriers_ * static_cast<std::uint64_t>(ranks_);
  ++head_->arrivals;
  return wait_until([&] { return head_->arrivals >= due; }) ? ncclSuccess : ncclRemoteError;
}

ncclResult_t FakeExchange::hang() const {
  wait_until([] { return false; });
  return ncclRemoteError;
}

ncclResult_t FakeExchange::publish(const void* mine, std::size_t bytes) {
  if (bytes > slot_bytes) return ncclInvalidArgument;
  if (bytes > 0) std::memcpy(slot(rank_), mine, bytes);
  return barrier();
}

ncclResult_t FakeExchange::reduce_part(std::size_t first, void* out, std::size_t count, ncclDataType_t type,
                                       ncclRedOp_t op) {
  std::vector<const std::byte*> slots;
  for (int rank = 0; rank < ranks_; ++rank) slots.push_back(slot(rank) + first * bytes_of(type));
  return reduce_slots(slots, out, count, type, op);
}

ncclResult_t FakeExchange::all_reduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                                      ncclRedOp_t op) {
  ncclResult_t result = publish(in, count * bytes_of(type));
  if (result == ncclSuccess) result = reduce_part(0, out, count, type, op);
  ncclResult_t const end = barrier();  // before another rank overwrites its slot
  return result == ncclSuccess ? end : result;
}

ncclResult_t FakeExchange::reduce_scatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                                          ncclRedOp_t op) {
  ncclResult_t result = publish(in, count * bytes_of(type) * static_cast<std::size_t>(ranks_));
  if (result == ncclSuccess)
    result = reduce_part(static_cast<std::size_t>(rank_) * count, out, count, type, op);
  ncclResult_t const end = barrier();
  return result == ncclSuccess ? end : result;
}

ncclResult_t FakeExchange::reduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, int root) {
  ncclResult_t result = publish(in, count * bytes_of(type));
  if (result == ncclSuccess && rank_ == root) result = reduce_part(0, out, count, type, op);
  ncclResult_t const end = barrier();
  return result == ncclSuccess ? end : result;
}

ncclResult_t FakeExchange::broadcast(const void* in, void* out, std::size_t bytes, int root) {
  ncclResult_t const result = publish(in, rank_ == root ? bytes : 0);
  if (result == ncclSuccess) std::memcpy(out, slot(root), bytes);
  ncclResult_t const end = barrier();
  return result == ncclSuccess ? end : result;
}

ncclResult_t FakeExchange::all_gather(const void* in, void* out, std::size_t bytes) {
  ncclResult_t const result = publish(in, bytes);
  for (int rank = 0; result == ncclSuccess && rank < ranks_; ++rank)
    std::memcpy(static_cast<std::byte*>(out) + static_cast<std::size_t>(rank) * bytes, slot(rank), bytes);
  ncclResult_t const end = barrier();
  return result == ncclSuccess ? end : result;
}

// A rank's slot holds its messages in sequence: receiver, size, bytes.
ncclResult_t FakeExchange::messages(const std::vector<FakeMessage>& sends,
                                    const std::vector<FakeMessage>& recvs) {
  struct Label {
    std::uint64_t to, bytes;
  };
  std::vector<std::byte> mine;
  auto const append = [&](const void* from, std::size_t bytes) {
    auto const* const begin = static_cast<const std::byte*>(from);
    mine.insert(mine.end(), begin, begin + bytes);
  };
  for (const auto& send : sends) {
    Label const label{static_cast<std::uint64_t>(send.peer), send.bytes};
    append(&label, sizeof label);
    append(send.from, send.bytes);
  }
  Label const end{~std::uint64_t{0}, 0};
  append(&end, sizeof end);
  ncclResult_t result = publish(mine.data(), mine.size());
  std::vector<std::size_t> read(static_cast<std::size_t>(ranks_));  // offset in each rank's slot
  for (const auto& recv : recvs) {
    auto& at = read[static_cast<std::size_t>(recv.peer)];
    bool found = false;
    while (result == ncclSuccess && !found) {
      Label label;
      std::memcpy(&label, slot(recv.peer) + at, sizeof label);
      if (label.to == end.to) result = ncclInvalidUsage;
      if (result != ncclSuccess) break;
      at += sizeof label;
      found = label.to == static_cast<std::uint64_t>(rank_);
      if (found && label.bytes != recv.bytes) result = ncclInvalidUsage;
      if (found && result == ncclSuccess && recv.bytes > 0)
        std::memcpy(recv.to, slot(recv.peer) + at, recv.bytes);
      at += label.bytes;
    }
  }
  ncclResult_t const over = barrier();
  return result == ncclSuccess ? over : result;
}

std::byte* FakeExchange::message_slot(int sender, std::size_t entry) const {
  return slot(ranks_) + slot_bytes * (static_cast<std::size_t>(sender) * queued_messages + entry);
}

ncclResult_t FakeExchange::send(const FakeMessage& message) {
  if (message.bytes > slot_bytes) return ncclInvalidArgument;
  auto& queue = head_->messages.at(static_cast<std::size_t>(rank_));
  auto free = queue.end();
  auto const find_free = [&] {
    free = std::find_if(queue.begin(), queue.end(), [](const auto& each) { return each.to == 0; });
    return free != queue.end();
  };
  if (!wait_until(find_free)) return ncclRemoteError;
  auto const entry = static_cast<std::size_t>(free - queue.begin());
  if (message.bytes > 0) std::memcpy(message_slot(rank_, entry), message.from, message.bytes);
  free->bytes = message.bytes;
  free->number = ++sent_to_[message.peer];
  free->to = message.peer + 1;
  return ncclSuccess;
}

ncclResult_t FakeExchange::recv(const FakeMessage& message) {
  auto& queue = head_->messages.at(static_cast<std::size_t>(message.peer));
  auto const number = ++received_from_[message.peer];
  auto first = queue.end();
  auto const find_first = [&] {
    first = std::find_if(queue.begin(), queue.end(),
                         [&](const auto& each) { return each.to == rank_ + 1 && each.number == number; });
    return first != queue.end();
  };
  if (!wait_until(find_first)) return ncclRemoteError;
  if (first->bytes != message.bytes) return ncclInvalidUsage;
  auto const entry = static_cast<std::size_t>(first - queue.begin());
  if (message.bytes > 0) std::memcpy(message.to, message_slot(message.peer, entry), message.bytes);
  first->to = 0;
  return ncclSuccess;
}

ncclResult_t FakeExchange::split(int color, int key, std::unique_ptr<FakeExchange>& part) {
  struct SplitKey {
    int color, key;
  };
  SplitKey const mine{color, key};
  std::vector<SplitKey> keys(static_cast<std::size_t>(ranks_));
  auto const number = ++splits_;
  ncclResult_t const result = all_gather(&mine, keys.data(), sizeof mine);
  if (result != ncclSuccess) return result;
  std::vector<std::pair<int, int>> members;  // key, rank here
  for (int rank = 0; rank < ranks_; ++rank) {
    auto const& rank_key = keys[static_cast<std::size_t>(rank)];
    if (rank_key.color == color) members.emplace_back(rank_key.key, rank);
  }
  std::sort(members.begin(), members.end());
  auto const self = std::find(members.begin(), members.end(), std::pair(key, rank_));
  part = std::make_unique<FakeExchange>(path_ + "." + std::to_string(number) + "." + std::to_string(color),
                                        static_cast<int>(self - members.begin()),
                                        static_cast<int>(members.size()));
  return ncclSuccess;
}
