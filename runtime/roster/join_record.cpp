// SPDX-License-Identifier: Apache-2.0
#include "roster/join_record.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cbor.hpp"

namespace muster::bootstrap {
namespace {

using nlohmann::json;

// These texts are printed on a terminal: no control characters, no endless lines.
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

json encode_inventory(const HostInventory& inventory) {
  json interfaces = json::array();
  for (const auto& one : inventory.interfaces)
    interfaces.push_back({{"name", one.name}, {"address", one.address}, {"prefix", one.prefix}});
  json adapters = json::array();
  for (const auto& one : inventory.adapters)
    adapters.push_back({{"name", one.name},
                        {"port", one.port},
                        {"up", one.up},
                        {"link", one.link_layer},
                        {"subnet", one.subnet}});
  const Fabric& fabric = inventory.fabric;
  json const nvlink{{"state", static_cast<int>(fabric.state)},
                    {"status", fabric.status},
                    {"cluster", fabric.cluster},
                    {"clique", fabric.clique},
                    {"ailment", fabric.health_issues}};
  return {
      {"lenient", inventory.warn_only},  {"nccl", inventory.nccl},         {"driver", inventory.driver},
      {"gpus", inventory.gpus_openable}, {"first", inventory.local_first}, {"variables", inventory.variables},
      {"interfaces", interfaces},        {"adapters", adapters},           {"fabric", nvlink},
      {"imex", inventory.imex_channels}};
}

Fabric decode_fabric(const json& object) {
  Fabric fabric;
  fabric.state =
      static_cast<Fabric::State>(checked_int(object, "state", 0, static_cast<int>(Fabric::State::completed)));
  fabric.status = checked_int(object, "status", INT32_MIN, INT32_MAX);
  fabric.cluster = checked_text(object, "cluster");
  fabric.clique = checked_int(object, "clique", 0, INT32_MAX);
  fabric.health_issues = checked_text(object, "ailment");
  return fabric;
}

HostInventory decode_inventory(const json& object) {
  HostInventory inventory;
  inventory.warn_only = object.at("lenient").get<bool>();
  inventory.nccl = object.at("nccl").get<bool>();
  inventory.driver = checked_text(object, "driver");
  inventory.gpus_openable = checked_int(object, "gpus", -1, 65536);
  inventory.local_first = object.at("first").get<bool>();
  auto const& variables = object.at("variables");
  for (const auto& [name, value] : variables.items()) {
    check_text(name, "variables");
    inventory.variables.emplace(name, checked_text(variables, name.c_str()));
  }
  for (const auto& one : object.at("interfaces"))
    inventory.interfaces.push_back(
        {checked_text(one, "name"), checked_text(one, "address"), checked_int(one, "prefix", 0, 128)});
  for (const auto& one : object.at("adapters"))
    inventory.adapters.push_back({checked_text(one, "name"), checked_int(one, "port", 0, 65535),
                                  one.at("up").get<bool>(), checked_text(one, "link"),
                                  checked_text(one, "subnet")});
  inventory.fabric = decode_fabric(object.at("fabric"));
  const auto& channels = object.at("imex");
  for (const auto& one : channels) {
    if (!one.is_number_integer() || one.get<std::int64_t>() < 0 || one.get<std::int64_t>() > INT32_MAX)
      throw Error(ErrorCode::system, "a rank's hello has an unusable 'imex'");
    inventory.imex_channels.push_back(one.get<int>());
  }
  return inventory;
}

}  // namespace

std::vector<std::uint8_t> encode_record(const JoinRecord& record) {
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
                    {"gathers_telemetry", record.gathers_telemetry},
                    {"timeline", record.timeline},
                    {"error", record.error},
                    {"error_code", static_cast<int>(record.error_code)},
                    {"inventory", encode_inventory(record.inventory)},
                    {"network", record.network},
                    {"addresses", record.addresses},
                    {"port", record.port},
                    {"recovery_port", record.recovery_port},
                    {"key", json::binary(record.key)},
                    {"report_port", record.report_port},
                    {"report_key", json::binary(record.report_key)}};
  auto bytes = write_cbor(object);
  if (bytes.size() > max_record_bytes) {
    throw Error(ErrorCode::system, fmt::format("this rank's hello is {} bytes long, over the limit of {}",
                                               bytes.size(), max_record_bytes));
  }
  return bytes;
}

JoinRecord decode_record(std::span<const std::uint8_t> bytes) {
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
    record.gathers_telemetry = object.at("gathers_telemetry").get<bool>();
    record.timeline = object.at("timeline").get<bool>();
    record.error = checked_text(object, "error");
    record.error_code =
        static_cast<ErrorCode>(checked_int(object, "error_code", 0, static_cast<int>(ErrorCode::system)));
    record.inventory = decode_inventory(object.at("inventory"));
    record.network = checked_text(object, "network");
    record.addresses = object.at("addresses").get<std::vector<std::string>>();
    record.port = static_cast<std::uint16_t>(checked_int(object, "port", 0, 65535));
    record.recovery_port = static_cast<std::uint16_t>(checked_int(object, "recovery_port", 0, 65535));
    record.key = object.at("key").get_binary();
    record.report_port = static_cast<std::uint16_t>(checked_int(object, "report_port", 0, 65535));
    record.report_key = object.at("report_key").get_binary();
  } catch (const json::exception&) {
    throw Error(ErrorCode::system, "a rank's hello lacks a field or has one of another type");
  }
  return record;
}

std::vector<Hello> make_roster(const std::vector<JoinRecord>& records) {
  std::vector<Hello> roster;
  for (const auto& record : records) roster.push_back(record.hello);
  return roster;
}

}  // namespace muster::bootstrap
