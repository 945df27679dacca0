// SPDX-License-Identifier: Apache-2.0
#include "placement/topology/pci_address.hpp"

#include <charconv>
#include <cstdio>

#include "placement/topology/error.hpp"

namespace muster::placement {

namespace {

/// The whole text as a hexadecimal number with at most `digits` digits, not above `maximum`.
std::optional<std::uint32_t> hexadecimal(std::string_view text, std::size_t digits, std::uint32_t maximum) {
  if (text.empty() || text.size() > digits) return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size() || value > maximum) return std::nullopt;
  return value;
}

}  // namespace

std::string PciAddress::to_string() const {
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", domain, bus, device, function);
  return text;
}

std::optional<PciAddress> PciAddress::try_parse(std::string_view text) {
  const auto dot = text.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto device_colon = text.rfind(':', dot);
  if (device_colon == std::string_view::npos) return std::nullopt;
  const auto bus_colon = device_colon == 0 ? std::string_view::npos : text.rfind(':', device_colon - 1);
  const bool has_domain = bus_colon != std::string_view::npos;
  const std::size_t bus_start = has_domain ? bus_colon + 1 : 0;

  const auto domain = has_domain ? hexadecimal(text.substr(0, bus_colon), 8, 0xffffffff) : 0;
  const auto bus = hexadecimal(text.substr(bus_start, device_colon - bus_start), 2, 0xff);
  const auto device = hexadecimal(text.substr(device_colon + 1, dot - device_colon - 1), 2, 0x1f);
  const auto function = hexadecimal(text.substr(dot + 1), 1, 7);
  if (!domain || !bus || !device || !function) return std::nullopt;
  return PciAddress{*domain, static_cast<std::uint8_t>(*bus), static_cast<std::uint8_t>(*device),
                    static_cast<std::uint8_t>(*function)};
}

PciAddress PciAddress::parse(std::string_view text) {
  if (const auto address = try_parse(text)) return *address;
  throw Error("\"" + std::string(text.substr(0, 80)) +
              "\" is not a PCI address: write it like 0000:81:00.0.");
}

}  // namespace muster::placement
