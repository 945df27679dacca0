// SPDX-License-Identifier: Apache-2.0
#include "roster/join_record.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cbor.hpp"

namespace muster::bootstrap {
namespace {

using nlohmann::json;

// The texts end up in messages on a terminal: no control characters, no endless lines.
void check_text(const std::string& text, const char* name) {
  auto const bad =
      std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (bad || text.size() > 4096)
    throw Error(ErrorCode::system, fmt::format("a rank's hello has an unusable '{}'", name));
}

std::string checked_text(const json& object, const char* name) {
  auto text = object.at(name).get<std::string>();
  check_text(text, name);
  return text;
}

int checked_int(const json& object, const char* name, int low, int high) {
  auto const& value = object.at(name);
  if (!value.is_number_integer() || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high) {
    throw Error(ErrorCode::system, fmt::format("a rank's hello has an unusable '{}'", name));
  }
  return value.get<int>();
}

json written(const HostInventory& around) {
  json interfaces = json::array();
  for (const auto& one : around.interfaces)
    interfaces.push_back({{"name", one.name}, {"address", one.address}, {"prefix", one.prefix}});
  json adapters = json::array();
  for (const auto& one : around.adapters)
    adapters.push_back({{"name", one.name},
                        {"port", one.port},
                        {"up", one.up},
                        {"link", one.link_layer},
                        {"subnet", one.subnet}});
  const Fabric& fabric = around.fabric;
  json const nvlink{{"state", static_cast<int>(fabric.state)},
                    {"status", fabric.status},
                    {"cluster", fabric.cluster},
                    {"clique", fabric.clique},
                    {"ailment", fabric.ailment}};
  return {{"lenient", around.lenient},    {"nccl", around.nccl},         {"driver", around.driver},
          {"gpus", around.gpus_openable}, {"first", around.local_first}, {"variables", around.variables},
          {"interfaces", interfaces},     {"adapters", adapters},        {"fabric", nvlink},
          {"imex", around.imex_channels}};
}

Fabric fabric_in(const json& object) {
  Fabric fabric;
  fabric.state =
      static_cast<Fabric::State>(checked_int(object, "state", 0, static_cast<int>(Fabric::State::completed)));
  fabric.status = checked_int(object, "status", INT32_MIN, INT32_MAX);
  fabric.cluster = checked_text(object, "cluster");
  fabric.clique = checked_int(object, "clique", 0, INT32_MAX);
  fabric.ailment = checked_text(object, "ailment");
  return fabric;
}

HostInventory surroundings_in(const json& object) {
  HostInventory around;
  around.lenient = object.at("lenient").get<bool>();
  around.nccl = object.at("nccl").get<bool>();
  around.driver = checked_text(object, "driver");
  around.gpus_openable = checked_int(object, "gpus", -1, 65536);
  around.local_first = object.at("first").get<bool>();
  auto const& variables = object.at("variables");
  for (const auto& [name, value] : variables.items()) {
    check_text(name, "variables");
    around.variables.emplace(name, checked_text(variables, name.c_str()));
  }
  for (const auto& one : object.at("interfaces"))
    around.interfaces.push_back(
        {checked_text(one, "name"), checked_text(one, "address"), checked_int(one, "prefix", 0, 128)});
  for (const auto& one : object.at("adapters"))
    around.adapters.push_back({checked_text(one, "name"), checked_int(one, "port", 0, 65535),
                               one.at("up").get<bool>(), checked_text(one, "link"),
                               checked_text(one, "subnet")});
  around.fabric = fabric_in(object.at("fabric"));
  const auto& channels = object.at("imex");
  for (const auto& one : channels) {
    if (!one.is_number_integer() || one.get<std::int64_t>() < 0 || one.get<std::int64_t>() > INT32_MAX)
      throw Error(ErrorCode::system, "a rank's hello has an unusable 'imex'");
    around.imex_channels.push_back(one.get<int>());
  }
  return around;
}

}  // namespace

std::vector<std::uint8_t> encode(const JoinRecord& record) {
  const Hello& hello = record.hello;
  json const object{{"rank", hello.rank},
                    {"host", hello.host},
                    {"boot_id", hello.boot_id},
                    {"address", hello.address},
                    {"pid", hello.pid},
                    {"gpu", hello.gpu},
                    {"gpu_uuid", hello.gpu_uuid},
                    {"cpus", hello.cpus},
                    {"muster_version", hello.muster_version},
                    {"plugin_version", hello.plugin_version},
                    {"nccl_version", hello.nccl_version},
                    {"on_gpu", record.on_gpu},
                    {"gathers", record.gathers},
                    {"timeline", record.timeline},
                    {"trouble", record.trouble},
                    {"trouble_fault", static_cast<int>(record.trouble_fault)},
                    {"around", written(record.inventory)},
                    {"network", record.network},
                    {"addresses", record.addresses},
                    {"port", record.port},
                    {"reunion_port", record.reunion_port},
                    {"key", json::binary(record.key)},
                    {"witness_port", record.witness_port},
                    {"witness_key", json::binary(record.witness_key)}};
  auto bytes = write_cbor(object);
  if (bytes.size() > max_record_bytes) {
    throw Error(ErrorCode::system, fmt::format("this rank's hello is {} bytes long, over the limit of {}",
                                               bytes.size(), max_record_bytes));
  }
  return bytes;
}

JoinRecord decode(std::span<const std::uint8_t> bytes) {
  if (bytes.size() > max_record_bytes)
    throw Error(ErrorCode::system, "a rank's hello is over the length limit");
  json const object = read_cbor(bytes, "a rank's hello");
  JoinRecord record;
  try {
    Hello& hello = record.hello;
    hello.rank = checked_int(object, "rank", 0, INT32_MAX);
    hello.host = checked_text(object, "host");
    hello.boot_id = checked_text(object, "boot_id");
    hello.address = checked_text(object, "address");
    hello.pid = checked_int(object, "pid", 0, INT32_MAX);
    hello.gpu = checked_text(object, "gpu");
    hello.gpu_uuid = checked_text(object, "gpu_uuid");
    hello.cpus = checked_text(object, "cpus");
    hello.muster_version = checked_text(object, "muster_version");
    hello.plugin_version = checked_text(object, "plugin_version");
    hello.nccl_version = checked_text(object, "nccl_version");
    record.on_gpu = object.at("on_gpu").get<bool>();
    record.gathers = object.at("gathers").get<bool>();
    record.timeline = object.at("timeline").get<bool>();
    record.trouble = checked_text(object, "trouble");
    record.trouble_fault =
        static_cast<ErrorCode>(checked_int(object, "trouble_fault", 0, static_cast<int>(ErrorCode::system)));
    record.inventory = surroundings_in(object.at("around"));
    record.network = checked_text(object, "network");
    record.addresses = object.at("addresses").get<std::vector<std::string>>();
    record.port = static_cast<std::uint16_t>(checked_int(object, "port", 0, 65535));
    record.reunion_port = static_cast<std::uint16_t>(checked_int(object, "reunion_port", 0, 65535));
    record.key = object.at("key").get_binary();
    record.witness_port = static_cast<std::uint16_t>(checked_int(object, "witness_port", 0, 65535));
    record.witness_key = object.at("witness_key").get_binary();
  } catch (const json::exception&) {
    throw Error(ErrorCode::system, "a rank's hello lacks a field or has one of another type");
  }
  return record;
}

std::vector<Hello> roster_of(const std::vector<JoinRecord>& records) {
  std::vector<Hello> roster;
  for (const auto& record : records) roster.push_back(record.hello);
  return roster;
}

}  // namespace muster::bootstrap
