// SPDX-License-Identifier: Apache-2.0
#include "roster/join_record.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cbor.hpp"
#include "muster/version.hpp"

namespace muster::bootstrap {
namespace {

using nlohmann::json;

std::string_view major_minor(std::string_view version) {
  auto const first = version.find('.');
  if (first == version.npos) return version;
  return version.substr(0, version.find('.', first + 1));
}

// These texts are printed on a terminal: no control characters, no endless lines.
void check_text(const std::string& text, const char* name) {
  auto const bad =
      std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (bad || text.size() > 4096)
    throw Error(ErrorCode::system, fmt::format("a rank's hello has an unusable '{}'", name));
}

// Reads the values of an array in order: `name` is for the error.
class FieldReader {
 public:
  explicit FieldReader(const json& values) : values_(values) {}

  const json& next() { return values_.at(next_++); }
  bool flag() { return next().get<bool>(); }
  std::string text(const char* name) {
    auto text = next().get<std::string>();
    check_text(text, name);
    return text;
  }
  int integer(const char* name, int low, int high) {
    auto const& value = next();
    if (!value.is_number_integer() || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
      throw Error(ErrorCode::system, fmt::format("a rank's hello has an unusable '{}'", name));
    return value.get<int>();
  }
  std::size_t size() const { return values_.size(); }
  std::uint16_t port(const char* name) { return static_cast<std::uint16_t>(integer(name, 0, 65535)); }

 private:
  const json& values_;
  std::size_t next_ = 0;
};

json encode_inventory(const HostInventory& inventory) {
  json interfaces = json::array();
  for (const auto& one : inventory.interfaces)
    interfaces.push_back(json::array({one.name, one.address, one.prefix}));
  json adapters = json::array();
  for (const auto& one : inventory.adapters)
    adapters.push_back(json::array({one.name, one.port, one.up, one.link_layer, one.subnet}));
  const Fabric& fabric = inventory.fabric;
  return json::array({inventory.warn_only, inventory.nccl, inventory.driver, inventory.gpus_openable,
                      inventory.local_first, inventory.variables, std::move(interfaces), std::move(adapters),
                      json::array({static_cast<int>(fabric.state), fabric.status, fabric.cluster,
                                   fabric.clique, fabric.health_issues}),
                      inventory.imex_channels});
}

Fabric decode_fabric(FieldReader fields) {
  Fabric fabric;
  fabric.state =
      static_cast<Fabric::State>(fields.integer("state", 0, static_cast<int>(Fabric::State::completed)));
  fabric.status = fields.integer("status", INT32_MIN, INT32_MAX);
  fabric.cluster = fields.text("cluster");
  fabric.clique = fields.integer("clique", 0, INT32_MAX);
  fabric.health_issues = fields.text("health_issues");
  return fabric;
}

std::map<std::string, std::string> decode_variables(const json& object) {
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] : object.items()) {
    auto text = value.get<std::string>();
    check_text(name, "variables");
    check_text(text, name.c_str());
    variables.emplace(name, std::move(text));
  }
  return variables;
}

HostInventory decode_inventory(FieldReader fields) {
  HostInventory inventory;
  inventory.warn_only = fields.flag();
  inventory.nccl = fields.flag();
  inventory.driver = fields.text("driver");
  inventory.gpus_openable = fields.integer("gpus_openable", -1, 65536);
  inventory.local_first = fields.flag();
  inventory.variables = decode_variables(fields.next());
  for (const auto& values : fields.next()) {
    FieldReader one(values);
    auto name = one.text("interface"), address = one.text("address");
    inventory.interfaces.push_back({std::move(name), std::move(address), one.integer("prefix", 0, 128)});
  }
  for (const auto& values : fields.next()) {
    FieldReader one(values);
    RdmaPort adapter;
    adapter.name = one.text("adapter");
    adapter.port = one.integer("port", 0, 65535);
    adapter.up = one.flag();
    adapter.link_layer = one.text("link_layer");
    adapter.subnet = one.text("subnet");
    inventory.adapters.push_back(std::move(adapter));
  }
  inventory.fabric = decode_fabric(FieldReader(fields.next()));
  FieldReader channels(fields.next());
  for (std::size_t left = channels.size(); left > 0; --left)
    inventory.imex_channels.push_back(channels.integer("imex_channels", 0, INT32_MAX));
  return inventory;
}

}  // namespace

// An array without names: each rank decodes the records of all ranks.
std::vector<std::uint8_t> encode_record(const JoinRecord& record) {
  const Hello& hello = record.hello;
  auto bytes = write_cbor(json::array({version,
                                       hello.rank,
                                       hello.host,
                                       hello.gpu,
                                       hello.boot_id,
                                       hello.address,
                                       hello.pid,
                                       hello.gpu_uuid,
                                       hello.cpus,
                                       hello.plugin_version,
                                       hello.nccl_version,
                                       record.on_gpu,
                                       record.gathers_telemetry,
                                       record.timeline,
                                       record.error,
                                       static_cast<int>(record.error_code),
                                       json::binary(record.sealed_key),
                                       encode_inventory(record.inventory),
                                       record.network,
                                       record.addresses,
                                       record.port,
                                       record.local_socket,
                                       record.recovery_port,
                                       record.report_port,
                                       json::binary(record.key)}));
  if (bytes.size() > max_record_bytes) {
    throw Error(ErrorCode::system, fmt::format("this rank's hello is {} bytes long, over the limit of {}",
                                               bytes.size(), max_record_bytes));
  }
  return bytes;
}

JoinRecord decode_record(std::span<const std::uint8_t> bytes) {
  if (bytes.size() > max_record_bytes)
    throw Error(ErrorCode::system, "a rank's hello is over the length limit");
  json const values = read_cbor(bytes, "a rank's hello");
  JoinRecord record;
  try {
    FieldReader fields(values);
    Hello& hello = record.hello;
    hello.muster_version = fields.text("muster_version");
    hello.rank = fields.integer("rank", 0, INT32_MAX);
    hello.host = fields.text("host");
    hello.gpu = fields.text("gpu");
    if (!is_same_release(hello.muster_version, version)) return record;  // check_roster() names both
    hello.boot_id = fields.text("boot_id");
    hello.address = fields.text("address");
    hello.pid = fields.integer("pid", 0, INT32_MAX);
    hello.gpu_uuid = fields.text("gpu_uuid");
    hello.cpus = fields.text("cpus");
    hello.plugin_version = fields.text("plugin_version");
    hello.nccl_version = fields.text("nccl_version");
    record.on_gpu = fields.flag();
    record.gathers_telemetry = fields.flag();
    record.timeline = fields.flag();
    record.error = fields.text("error");
    record.error_code =
        static_cast<ErrorCode>(fields.integer("error_code", 0, static_cast<int>(ErrorCode::system)));
    record.sealed_key = fields.next().get_binary();
    record.inventory = decode_inventory(FieldReader(fields.next()));
    record.network = fields.text("network");
    record.addresses = fields.next().get<std::vector<std::string>>();
    record.port = fields.port("port");
    record.local_socket = fields.text("local_socket");
    record.recovery_port = fields.port("recovery_port");
    record.report_port = fields.port("report_port");
    record.key = fields.next().get_binary();
  } catch (const json::exception&) {
    throw Error(ErrorCode::system, "a rank's hello lacks a field or has one of another type");
  }
  return record;
}

bool is_same_release(const std::string& a, const std::string& b) { return major_minor(a) == major_minor(b); }

std::vector<Hello> make_roster(const std::vector<JoinRecord>& records) {
  std::vector<Hello> roster;
  for (const auto& record : records) roster.push_back(record.hello);
  return roster;
}

}  // namespace muster::bootstrap
