// SPDX-License-Identifier: Apache-2.0
#include "cbor.hpp"
#include "encrypted_frames.hpp"
#include "parameter_server/messages.hpp"
#include "protocol/messages.hpp"
#include "roster/join_record.hpp"
#include "seeds.hpp"
#include "transport/frame_body.hpp"
#include "transport/handshake.hpp"

namespace muster::fuzz {
namespace {

using nlohmann::json;

// FIRST, then each message as a frame; `from` identifies the sender.
Bytes framed(int first, const std::vector<std::pair<int, json>>& messages) {
  Bytes bytes;
  if (first >= 0) bytes.push_back(static_cast<std::uint8_t>(first));
  for (const auto& [from, message] : messages)
    append_frame(bytes, static_cast<std::uint8_t>(from), control::write_frame_body(message));
  return bytes;
}

Bytes make_join_record(int rank) {
  bootstrap::JoinRecord record;
  record.hello.rank = rank;
  record.hello.host = "n0";
  record.hello.cpus = "0-3,8";
  record.addresses = {"10.0.0.1"};
  return bootstrap::encode_record(record);
}

json make_contribution(const std::string& name, int root = -1, const json& members = nullptr) {
  return encode(protocol::Contribution{name, members, root, std::chrono::seconds{5}, false, {1, 2}});
}

void seed_coordinator() {
  protocol::StalledOperation stalled;
  stalled.communicator = "world";
  stalled.members = {{1, 1, 2}};
  stalled.number = 3;
  stalled.operation = "all_reduce";
  protocol::RankState const state{1, 2, "all_reduce", true, "", {7, 6}, "all_reduce", ""};
  seed("fuzz_coordinator", "rounds",
       framed(-1, {{0, make_contribution("b", 0)},
                   {1, make_contribution("b", 0)},
                   {1, encode(protocol::FromRank{3, make_contribution("b")})}}));
  seed("fuzz_coordinator", "members",
       framed(-1,
              {{0, make_contribution("g", -1, {{1, 1, 2}})}, {1, make_contribution("g", -1, {{1, 1, 2}})}}));
  seed("fuzz_coordinator", "stalled",
       framed(-1, {{0, encode(stalled)}, {0, encode(state)}, {1, encode(state)}}));
  // Ranks 1 and 2 wait for each other.
  auto first = state, second = state;
  first.number = 0;
  first.one_caller = second.one_caller = true;
  first.wait = {.communicator = "part", .number = 1, .members = {{1, 1, 2}}};
  second.wait = {.communicator = "world", .from = 0, .peer = 1, .count = 1};
  auto first_again = first, second_again = second;
  first_again.id = second_again.id = 2;
  first_again.entered = {true, false};
  second_again.entered = {false, true};
  seed("fuzz_coordinator", "deadlock",
       framed(-1, {{0, encode(stalled)},
                   {0, encode(first)},
                   {1, encode(second)},
                   {0, encode(first_again)},
                   {1, encode(second_again)}}));
  seed("fuzz_coordinator", "calls",
       framed(-1, {{0, encode(protocol::CallReport{"world", 3, 2, "barrier", 7})},
                   {1, encode(protocol::CallReport{"world", 3, 2, "all_reduce of 10 float32, sum", 8})}}));
  std::chrono::milliseconds const wait{10};
  seed("fuzz_coordinator", "store",
       framed(-1, {{0, encode(protocol::Put{"x", {1}})},
                   {0, encode(protocol::Get{1, "x", wait})},
                   {1, encode(protocol::Get{1, "y", wait})},
                   {1, encode(protocol::HostClock{1})},
                   {1, encode(protocol::ReadClocks{2})}}));
  using protocol::StoreAction;
  using protocol::StoreOperation;
  seed("fuzz_coordinator", "store_operations",
       framed(-1, {{0, encode(StoreOperation{1, StoreAction::add, "x", {'1'}, {}})},
                   {1, encode(StoreOperation{2, StoreAction::append, "x", {'2'}, {}})},
                   {0, encode(StoreOperation{3, StoreAction::compare_set, "x", {1}, {'1', '2'}})},
                   {1, encode(StoreOperation{4, StoreAction::contains, "x", {}, {}})},
                   {0, encode(StoreOperation{5, StoreAction::count, "", {}, {}})},
                   {1, encode(StoreOperation{6, StoreAction::erase, "x", {}, {}})}}));
  seed("fuzz_coordinator", "rpc",
       framed(-1, {{0, encode(protocol::RpcRequest{1, 2, 7, "topic", {1}})},
                   {1, encode(protocol::RpcResponse{2, 1, 7, true, {1}})}}));
  seed("fuzz_coordinator", "ends",
       framed(-1, {{1, encode(protocol::RankConnected{3})},
                   {1, encode(protocol::RankDisconnected{3, "x", true})},
                   {1, encode(protocol::LauncherExit{"slurmstepd"})},
                   {0, encode(protocol::FailureReport{ErrorCode::usage, "x"})}}));
}

void seed_ranks() {
  auto const failure = encode(protocol::Failure{ErrorCode::usage, 0, "x"});
  auto const done = encode(protocol::RoundResult{"b", false, {{1}, {2}}});
  auto const response = encode(protocol::Response{1, encode(protocol::Value{true, {1}})});
  for (int leads : {0, 1}) {
    auto const name = std::to_string(leads);
    seed("fuzz_control_plane", "responses" + name,
         framed(leads, {{0, response}, {0, done}, {0, encode(protocol::RoundResult{"c", false, {{1}}})}}));
    seed("fuzz_control_plane", "state" + name,
         framed(leads, {{0, encode(protocol::RankStateQuery{1, "world", 3})}, {0, failure}}));
    protocol::RankStateQuery query{1, "world", 3};
    query.waits = {{.communicator = "world", .number = 2},
                   {.communicator = "world", .from = 2, .peer = 1, .sends = true, .count = 1}};
    seed("fuzz_control_plane", "waits" + name, framed(leads, {{0, encode(query)}, {0, failure}}));
    seed("fuzz_control_plane", "lost" + name,
         framed(leads, {{0, encode(protocol::RanksLost{{2, 3}, "x"})}, {0, done}}));
    seed("fuzz_control_plane", "relayed" + name,
         framed(leads, {{0, encode(protocol::ToRanks{{1, 2}, response})}, {0, done}}));
    seed("fuzz_rendezvous_server", "hello" + name,
         framed(leads, {{0, encode(protocol::JoinHello{3, make_join_record(1 + leads)})},
                        {0, encode(protocol::ProcessReport{"n0", {{2, 7, "x"}}})}}));
  }
  auto const records = encode(protocol::JoinRecords{{make_join_record(0), make_join_record(1)}});
  seed("fuzz_rendezvous_client", "records",
       framed(-1, {{0, encode(protocol::ProcessQuery{})}, {0, records}}));
  seed("fuzz_rendezvous_client", "failure", framed(-1, {{0, failure}}));
  seed("fuzz_secure_channel", "messages", framed(1, {{0, done}, {0, encode(protocol::Heartbeat{"x"})}}));
  Bytes raw{0};
  FrameEncryptor(control::Key{}).append(raw, write_cbor(done));
  seed("fuzz_secure_channel", "raw", raw);
  seed("fuzz_join_record", "hello", make_join_record(1));
}

void seed_parameter_servers() {
  using namespace parameter_server;
  std::chrono::milliseconds const wait{10};
  // A server's slice has 32 elements.
  PushPart const part{1, 0, 0, 0, false, Blob(128)};
  PushPart const rounded{1, 0, 1, 0, true, Blob(64)};
  std::vector<std::pair<int, json>> const tasks{{0, encode(part)},
                                                {0, encode(PushEnd{2, 0, 0, {0.5}})},
                                                {0, encode(TaskDone{3, 0, 0, {1, 2}})},
                                                {1, encode(rounded)},
                                                {1, encode(PushEnd{2, 0, 1, {0.5, 1}})},
                                                {1, encode(TaskDone{3, 0, 1, {1}})},
                                                {1, encode(WaitFor{4, 1, wait})},
                                                {0, encode(Read{4, 0, 1, 8, 16, true})}};
  for (int const choice : {0, 1, 2, 3}) {
    auto messages = tasks;
    if (choice / 2 == 1)
      messages.insert(messages.begin(), {{0, encode(Take{5, 0})}, {1, encode(Take{5, 0})}});
    seed("fuzz_parameter_server", "tasks" + std::to_string(choice), framed(choice, messages));
  }
  seed("fuzz_parameter_server", "others",
       framed(2, {{0, encode(Write{1, 0, 4, Blob(16)})},
                  {0, encode(AddSums{2, {1}})},
                  {1, encode(WaitFor{3, 2, wait})},
                  {0, encode(Leave{4})}}));
  Reply values{2};
  values.payload.resize(16);
  Reply bfloat16_values{3};
  bfloat16_values.payload.resize(8);
  Reply failed{3};
  failed.error = "x";
  seed(
      "fuzz_parameter_client", "values",
      framed(-1,
             {{0, encode(Reply{1, true, 2, 3, 4, {1}})}, {0, encode(values)}, {0, encode(bfloat16_values)}}));
  seed("fuzz_parameter_client", "failed", framed(-1, {{0, encode(failed)}, {0, encode(values)}}));
}

Bytes key_frame(const json& content) {
  Bytes const sealed = write_cbor(content);
  Bytes frame{'m', 'u', 's', 't', 'k', 'e', 'y', 1, static_cast<std::uint8_t>(sealed.size()), 0, 0, 0};
  frame.insert(frame.end(), sealed.begin(), sealed.end());
  return frame;
}

void seed_strangers() {
  auto const greeting = control::make_client_hello(1, control::KeyPair().public_key());
  Bytes bytes(greeting.begin(), greeting.end());
  bytes.resize(bytes.size() + control::mac_bytes, 7);
  seed("fuzz_authenticating_acceptor", "greeting", bytes);
  Bytes const nonce(32, 1);
  json request{{"job", "slurm/c/1.0/"}, {"rank", 3}, {"nonce", json::binary(nonce)}};
  seed("fuzz_key_server", "request", key_frame(request));
  request["key"] = json::binary(Bytes(32, 2));
  request["port"] = 12000;
  request["rank"] = 1;
  seed("fuzz_job_credentials", "credentials", key_frame(request));
}

}  // namespace

void seed_messages() {
  seed_coordinator();
  seed_ranks();
  seed_parameter_servers();
  seed_strangers();
}

}  // namespace muster::fuzz
