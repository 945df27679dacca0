// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "catch.hpp"
#include "cbor.hpp"
#include "cpu_set/cpu_set.hpp"
#include "launcher/local_hello.hpp"
#include "muster/version.hpp"
#include "roster/join_record.hpp"
#include "roster/roster.hpp"

using namespace muster;
using bootstrap::JoinRecord;

namespace {

JoinRecord full_record() {
  JoinRecord record;
  record.hello = bootstrap::make_hello();
  record.hello.rank = 17;
  record.hello.gpu = "0000:3b:00.0";
  record.hello.gpu_uuid = "GPU-x";
  record.hello.plugin_version = "0.1.0";
  record.hello.nccl_version = "2.28.9";
  record.on_gpu = true;
  record.gathers_telemetry = true;
  record.timeline = true;
  record.error = "broken";
  record.error_code = ErrorCode::device;
  record.addresses = {"10.0.0.1", "fd00::1"};
  record.inventory.nccl = true;
  record.inventory.driver = "570.1";
  record.inventory.gpus_openable = 4;
  record.inventory.variables = {{"NCCL_PROTO", "LL"}};
  record.inventory.interfaces = {{"eth0", "10.0.0.1", 24}};
  record.inventory.adapters = {{"mlx5_0", 2, true, "InfiniBand", "fe80:0000:0000:0000"}};
  record.inventory.fabric = {bootstrap::Fabric::State::completed, 999, "ab12", 7, "degraded bandwidth"};
  record.inventory.imex_channels = {0, 5};
  record.port = 65535;
  record.key.assign(32, 0xab);
  record.sealed_key.assign(33, 0xcd);
  record.report_port = 4711;
  return record;
}

}  // namespace

TEST_CASE("when a record is encoded and decoded, it is unchanged") {
  auto const record = full_record();
  auto const back = bootstrap::decode_record(bootstrap::encode_record(record));
  REQUIRE(back.hello.rank == 17);
  REQUIRE(back.hello.host == record.hello.host);
  REQUIRE(back.hello.boot_id == record.hello.boot_id);
  REQUIRE(back.hello.pid == record.hello.pid);
  REQUIRE(back.hello.cpus == record.hello.cpus);
  REQUIRE(back.hello.gpu == record.hello.gpu);
  REQUIRE(back.hello.muster_version == version);
  REQUIRE(back.on_gpu);
  REQUIRE(back.gathers_telemetry);
  REQUIRE(back.timeline);
  REQUIRE(back.error == "broken");
  REQUIRE(back.error_code == ErrorCode::device);
  REQUIRE(back.addresses == record.addresses);
  REQUIRE(back.inventory.driver == "570.1");
  REQUIRE(back.inventory.gpus_openable == 4);
  REQUIRE(back.inventory.variables == record.inventory.variables);
  REQUIRE(back.inventory.interfaces.at(0).prefix == 24);
  REQUIRE(back.inventory.adapters.at(0).port == 2);
  REQUIRE(back.inventory.adapters.at(0).up);
  REQUIRE(back.inventory.fabric.state == bootstrap::Fabric::State::completed);
  REQUIRE(back.inventory.fabric.status == 999);
  REQUIRE(back.inventory.fabric.cluster == "ab12");
  REQUIRE(back.inventory.fabric.clique == 7);
  REQUIRE(back.inventory.fabric.health_issues == "degraded bandwidth");
  REQUIRE(back.inventory.imex_channels == std::vector<int>{0, 5});
  REQUIRE(back.port == 65535);
  REQUIRE(back.key == record.key);
  REQUIRE(back.sealed_key == record.sealed_key);
  REQUIRE(back.report_port == 4711);
}

TEST_CASE("when bytes are cut, changed or random, they are refused or decoded, nothing else") {
  auto const good = bootstrap::encode_record(full_record());
  for (std::size_t length = 0; length < good.size(); ++length) {
    REQUIRE_THROWS_AS(bootstrap::decode_record(std::span(good).first(length)), Error);
  }
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    auto bytes = good;
    for (int changes = 0; changes < 3; ++changes)
      bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    try {
      bootstrap::decode_record(bytes);
    } catch (const Error& error) {
      ++refused;
      REQUIRE(std::string(error.what()).find('\n') == std::string::npos);
    }
  }
  REQUIRE(refused > 1000);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::uint8_t> bytes(random() % 64);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    REQUIRE_THROWS_AS(bootstrap::decode_record(bytes), Error);
  }
}

TEST_CASE("when input is deeply nested, announces huge lengths or is long, memory and stack suffice") {
  std::vector<std::uint8_t> const nested(60000, 0x81);  // an array in an array in …
  REQUIRE_THROWS_AS(bootstrap::decode_record(nested), Error);
  std::vector<std::uint8_t> const endless(60000, 0x9f);  // arrays of unknown length
  REQUIRE_THROWS_AS(bootstrap::decode_record(endless), Error);
  std::vector<std::uint8_t> const long_text{0x7b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  REQUIRE_THROWS_AS(bootstrap::decode_record(long_text), Error);
  std::vector<std::uint8_t> const many{0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00};
  REQUIRE_THROWS_AS(bootstrap::decode_record(many), Error);
  REQUIRE_THROWS_AS(bootstrap::decode_record(std::vector<std::uint8_t>(bootstrap::max_record_bytes + 1)),
                    Error);
}

TEST_CASE("when a hello has wrong types, ranges or control characters, it is refused") {
  enum Field { rank = 1, host = 2, gpu = 3, error_code = 15, key = 16, addresses = 19, port = 20 };
  auto const change = [](Field field, const nlohmann::json& value) {
    auto values = read_cbor(bootstrap::encode_record(full_record()), "test");
    values.at(field) = value;
    return write_cbor(values);
  };
  CHECK(bootstrap::decode_record(change(rank, 3)).hello.rank == 3);
  CHECK(bootstrap::decode_record(change(port, 3)).port == 3);
  for (const auto& bytes :
       {change(rank, -1), change(rank, "1"), change(rank, 1e3), change(port, 65536), change(host, 5),
        change(host, "a\nb"), change(gpu, "\x1b[31m"), change(error_code, 99), change(key, "text"),
        change(addresses, {1, 2}), change(host, std::string(5000, 'a'))}) {
    REQUIRE_THROWS_AS(bootstrap::decode_record(bytes), Error);
  }
}

TEST_CASE("a hello of another release is read as far as the check of versions needs it") {
  std::vector<JoinRecord> records{
      full_record(),
      bootstrap::decode_record(write_cbor({"99.1.2", 4, "far", "0000:3b:00.0", "unknown", 3}))};
  CHECK(records[1].hello.rank == 4);
  CHECK(records[1].hello.boot_id.empty());
  records[0].error.clear();
  REQUIRE_THROWS_WITH(bootstrap::check_roster(records),
                      Catch::Matchers::ContainsSubstring(
                          "rank 4 (host far, GPU 0000:3b:00.0) runs libmuster 99.1.2 but rank 17"));
  REQUIRE_THROWS_AS(bootstrap::decode_record(write_cbor({version, 4, "far", "", "unknown", 3})), Error);
}

TEST_CASE("the CPUs of a process's own hello are a list of CPUs") {
  auto const cpus = CpuSet::parse_list(bootstrap::make_hello().cpus);
  REQUIRE((cpus && !cpus->empty()));
}
