// SPDX-License-Identifier: Apache-2.0
// The kinds of mismatches:
//   reduction     the culprit reduces with premul_sum(), or does not; every rank has a factor of its own
//   shares        has another count for one rank in an all_gather_v or reduce_scatter_v
//   slices        sends or expects another count in an all_to_all_v
//   message       sends or receives a message of another count or type
//   lone_message  does not send or receive a message; the next call of all ranks is a collective
//   call          makes another call on a communicator made by split
//   color, key    has another one in split, and so calls as a rank that it is not
//   order         makes two calls the other way round
//   split         splits while the others make a call, or the reverse
//   elsewhere     makes the same call on another communicator
#include "mismatch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <utility>

namespace muster::chaos {
namespace {

using CountedCall = Mismatch::CountedCall;

constexpr const char* kinds[] = {"reduction", "shares", "slices", "message", "lone_message", "call",
                                 "color",     "key",    "order",  "split",   "elsewhere"};
// So long that a send waits for its recv in every transport.
constexpr std::size_t waiting_count = 1u << 20;

std::string text_of(const CountedCall& made, std::size_t ranks) {
  auto call = made.call;
  if (call.kind == Kind::split) return "split";
  std::vector<std::size_t> const counts(ranks, call.count);
  call.counts = made.counts.empty() ? counts : made.counts;
  return describe_call(call);
}

class Drawing {
 public:
  Drawing(std::uint64_t seed, int ranks, int culprit)
      : ranks_(ranks), culprit_(culprit), choice_(seed ^ 0x6d69736d61746368, ranks), call_(seed, ranks) {
    drawn_.kind = kinds[choice_.below(std::size(kinds))];
    draw_members();
    // The roots are ranks of this communicator.
    call_ = RandomCalls(choice_.below(~std::size_t{0}), static_cast<int>(size()));
    drawn_.calls.resize(size());
    draw_calls();
  }
  Mismatch take() { return std::move(drawn_); }

 private:
  bool is(const char* kind) const { return drawn_.kind == kind; }
  std::size_t size() const { return drawn_.members.size(); }
  std::size_t culprit() const { return drawn_.culprit; }
  std::size_t other_member() { return (culprit() + 1 + choice_.below(size() - 1)) % size(); }
  int in_job(std::size_t member) const { return drawn_.members[member]; }

  // Ranks that split with these colors and keys.
  std::vector<int> part_of(int color, const std::vector<int>& keys) const {
    std::vector<int> part;
    for (int r = 0; r < ranks_; ++r)
      if (drawn_.colors[static_cast<std::size_t>(r)] == color) part.push_back(r);
    std::ranges::stable_sort(part, {}, [&](int r) { return keys[static_cast<std::size_t>(r)]; });
    return part;
  }
  static std::size_t place_of(int rank, const std::vector<int>& part) {
    return static_cast<std::size_t>(std::ranges::find(part, rank) - part.begin());
  }

  void draw_members() {
    auto const at = static_cast<std::size_t>(culprit_);
    bool const needs_part = is("call") || is("color") || is("key") || is("elsewhere");
    drawn_.is_part = needs_part || choice_.below(3) == 0;
    // Ranks of another part would wait for these, too, and could be the first whose deadline passes.
    bool const ends_at_deadline = is("lone_message") || is("split") || is("elsewhere");
    bool const is_alone = (ranks_ - culprit_ % 2 + 1) / 2 < 2;  // in a part of every second rank
    bool const one_part = !drawn_.is_part || ends_at_deadline || is_alone;
    bool const is_reversed = choice_.below(2) == 0;
    for (int r = 0; r < ranks_; ++r) {
      drawn_.colors.push_back(one_part ? 0 : r % 2);
      drawn_.keys.push_back(drawn_.is_part && is_reversed && !is("key") ? -r : 0);
    }
    if (is("color")) {
      for (int r = 0; r < ranks_; ++r) drawn_.colors[static_cast<std::size_t>(r)] = r % 2;
      drawn_.colors[at] = 1 - drawn_.colors[at];
    }
    auto const color = drawn_.colors[at];
    if (is("key")) {
      root_ = place_of(culprit_, part_of(color, drawn_.keys));
      drawn_.keys[at] = root_ == 0 ? 1 : -1;
    }
    drawn_.members = part_of(color, drawn_.keys);
    drawn_.culprit = place_of(culprit_, drawn_.members);
    drawn_.communicator = drawn_.is_part ? fmt::format("host/N.{}", color) : "host";
  }

  void draw_calls() {
    drawn_.form = static_cast<Mismatch::Form>(choice_.below(3));
    if (is("reduction")) return draw_reduction();
    if (is("shares")) return draw_shares();
    if (is("slices")) return draw_slices();
    if (is("message")) return draw_message();
    if (is("lone_message")) return draw_lone_message();
    if (is("key")) return draw_root();
    if (is("order")) return draw_order();
    if (is("split")) return draw_split();
    if (is("elsewhere")) return draw_elsewhere();
    CountedCall const right{call_.next()};
    differ({call_.other_than(right.call)}, right);
  }

  void add(const CountedCall& wrong, const CountedCall& right) {
    for (std::size_t r = 0; r < size(); ++r) drawn_.calls[r].push_back(r == culprit() ? wrong : right);
    // A barrier cannot be grouped.
    if (wrong.call.kind == Kind::barrier || right.call.kind == Kind::barrier)
      drawn_.form = Mismatch::Form::alone;
  }
  // The culprit makes `wrong`, and the others `right`.
  void differ(const CountedCall& wrong, const CountedCall& right) {
    add(wrong, right);
    drawn_.wrong = text_of(wrong, size());
    drawn_.right = text_of(right, size());
  }

  void draw_reduction() {
    constexpr Kind reductions[] = {Kind::all_reduce, Kind::reduce, Kind::reduce_scatter,
                                   Kind::reduce_scatter_v};
    CountedCall scaled{call_.next()};
    scaled.call.kind = reductions[choice_.below(std::size(reductions))];
    scaled.call.type = choice_.below(2) == 0 ? DataType::float32 : DataType::bfloat16;
    if (scaled.call.count == 0) scaled.call.count = call_.count();
    auto plain = scaled;
    scaled.call.reduction = Reduction::sum;
    scaled.call.factor = 2;
    // Before it, a call in which only the factors differ.
    add(scaled, scaled);
    if (choice_.below(2) == 0)
      differ(plain, scaled);
    else
      differ(scaled, plain);
    for (std::size_t r = 0; r < size(); ++r)
      for (auto& [call, counts, recv_counts] : drawn_.calls[r])
        if (call.factor) call.factor = 1.0 / static_cast<double>(1 + r);
  }

  // In which every rank waits for all others.
  CountedCall draw_full_call() {
    constexpr Kind full[] = {Kind::all_reduce, Kind::all_gather, Kind::all_to_all, Kind::barrier};
    CountedCall drawn{call_.next()};
    drawn.call.kind = full[choice_.below(std::size(full))];
    if (drawn.call.count == 0) drawn.call.count = call_.count();
    return drawn;
  }
  std::vector<std::size_t> draw_counts() {
    std::vector<std::size_t> counts(size());
    for (auto& count : counts) count = call_.count() - 1;
    return counts;
  }
  std::size_t other_count(std::size_t count) {
    auto const other = choice_.below(4) == 0 ? 0 : call_.count();
    return other == count ? count + 1 : other;
  }

  void draw_shares() {
    CountedCall right{{.kind = choice_.below(2) == 0 ? Kind::all_gather_v : Kind::reduce_scatter_v,
                       .type = call_.type(),
                       .reduction = static_cast<Reduction>(choice_.below(5))},
                      draw_counts()};
    auto wrong = right;
    auto const at = choice_.below(size());
    // Half of them have the same sum.
    if (choice_.below(2) == 0) std::swap(wrong.counts[at], wrong.counts[(at + 1) % size()]);
    if (wrong.counts == right.counts) wrong.counts[at] = other_count(wrong.counts[at]);
    differ(wrong, right);
  }

  void draw_slices() {
    auto const type = call_.type();
    std::vector<std::vector<std::size_t>> sent(size());  // by sender, then receiver
    for (auto& counts : sent) counts = draw_counts();
    for (std::size_t r = 0; r < size(); ++r) {
      CountedCall made{{.kind = Kind::all_to_all_v, .type = type}, sent[r]};
      for (const auto& counts : sent) made.recv_counts.push_back(counts[r]);
      drawn_.calls[r] = {made};
    }
    auto const other = other_member();
    bool const sends = choice_.below(2) == 0;
    auto& own = drawn_.calls[culprit()].front();
    auto& count = (sends ? own.counts : own.recv_counts)[other];
    count = other_count(count);
    auto const sender = sends ? culprit() : other;
    auto const receiver = sends ? other : culprit();
    drawn_.wrong = fmt::format("rank {}", in_job(receiver));
    drawn_.right = fmt::format("rank {} sends {} elements to this rank, whose recv_counts has {}",
                               in_job(sender), drawn_.calls[sender].front().counts[receiver],
                               drawn_.calls[receiver].front().recv_counts[sender]);
  }

  void draw_message() {
    auto const other = other_member();
    bool const sends = choice_.below(2) == 0;
    auto const sender = sends ? culprit() : other;
    auto const receiver = sends ? other : culprit();
    CollectiveCall send{
        .kind = Kind::send, .count = call_.count(), .type = call_.type(), .peer = static_cast<int>(receiver)};
    auto recv = send;
    recv.kind = Kind::recv;
    recv.peer = static_cast<int>(sender);
    auto& wrong = sends ? send : recv;
    auto const what = choice_.below(3);
    while (what > 0 && send.type == recv.type) wrong.type = call_.type();
    if (what < 2) wrong.count = other_count(wrong.count);
    drawn_.calls[sender] = {{send}};
    drawn_.calls[receiver] = {{recv}};
    drawn_.wrong = fmt::format("rank {}: a recv of {} {}", in_job(receiver), recv.count, name_of(recv.type));
    drawn_.right = fmt::format("a send of {} {} on rank {}", send.count, name_of(send.type), in_job(sender));
  }

  void draw_lone_message() {
    auto const other = other_member();
    bool const sends = choice_.below(2) == 0;
    auto const next = draw_full_call();
    add(next, next);
    CollectiveCall const message{.kind = sends ? Kind::send : Kind::recv,
                                 .count = waiting_count,
                                 .type = DataType::uint8,
                                 .peer = static_cast<int>(culprit())};
    drawn_.form = Mismatch::Form::alone;
    drawn_.calls[other].insert(drawn_.calls[other].begin(), {message});
    drawn_.wrong = text_of(next, size());
    drawn_.right = fmt::format("{} on rank {}", to_string(message.kind), in_job(other));
  }

  void draw_root() {
    CountedCall right{call_.next()};
    right.call.kind = choice_.below(2) == 0 ? Kind::reduce : Kind::broadcast;
    if (right.call.count == 0) right.call.count = call_.count();
    auto wrong = right;
    right.call.peer = static_cast<int>(root_);
    wrong.call.peer = static_cast<int>(culprit());
    differ(wrong, right);
  }

  void draw_order() {
    CountedCall const before{call_.next()};
    CountedCall const first{call_.next()};
    CountedCall const second{call_.other_than(first.call)};
    if (choice_.below(2) == 0) add(before, before);
    differ(second, first);
    add(first, second);
  }

  void draw_split() {
    CountedCall const call{call_.next()};
    CountedCall const split{{.kind = Kind::split}};
    if (choice_.below(2) == 0)
      differ(split, call);
    else
      differ(call, split);
    drawn_.form = Mismatch::Form::alone;
  }

  void draw_elsewhere() {
    auto const call = draw_full_call();
    differ(call, call);
    drawn_.culprit_on_world = true;
  }

  int ranks_, culprit_;
  RandomCalls choice_, call_;
  std::size_t root_ = 0;
  Mismatch drawn_;
};

}  // namespace

Mismatch draw_mismatch(std::uint64_t seed, int ranks, int culprit) {
  return Drawing(seed, ranks, culprit).take();
}

std::string describe(const Mismatch& mismatch) {
  return fmt::format("{} on '{}' ({}), calls {}|{}", mismatch.kind, mismatch.communicator,
                     fmt::join(mismatch.members, " "), mismatch.wrong, mismatch.right);
}

void run(const Mismatch& mismatch, Communicator& world) {
  auto const own = static_cast<std::size_t>(world.rank());
  auto part = mismatch.is_part ? world.split(mismatch.colors[own], mismatch.keys[own]) : world;
  auto const member = std::ranges::find(mismatch.members, world.rank());
  if (member == mismatch.members.end()) return;
  auto const rank = static_cast<std::size_t>(member - mismatch.members.begin());
  auto& on = mismatch.culprit_on_world && rank == mismatch.culprit ? world : part;
  // Kept for ever: after an error, an operation in the background may still use them.
  auto& calls = *new std::deque<BufferedCall>;
  for (const auto& [call, counts, recv_counts] : mismatch.calls[rank]) {
    auto counted = call;
    counted.counts = counts;
    counted.recv_counts = recv_counts;
    calls.emplace_back(counted, on.rank(), on.size());
  }
  auto const run_all = [&] {
    for (auto& call : calls) call.run(on);
  };
  if (mismatch.form == Mismatch::Form::alone) {
    run_all();
  } else if (mismatch.form == Mismatch::Form::grouped) {
    on.grouped(run_all);
  } else {
    std::deque<Work> works;
    for (auto& call : calls) works.push_back(on.async([&] { call.run(on); }));
    for (auto& work : works) work.wait();
  }
  // The call may have ended on all ranks. The next one there shows it.
  if (mismatch.is_part) part.barrier();
}

}  // namespace muster::chaos
