// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::placement {

/// A device's address on the PCI bus. Ordered by domain, bus, device, function; local ranks follow this
/// order.
struct PciAddress {
  std::uint32_t domain = 0;
  std::uint8_t bus = 0;
  std::uint8_t device = 0;    ///< 0 … 31
  std::uint8_t function = 0;  ///< 0 … 7

  friend auto operator<=>(const PciAddress&, const PciAddress&) = default;

  /// "0000:81:00.0": lower case, domain of at least four digits, as sysfs writes it.
  std::string to_string() const;

  /// Reads "0000:81:00.0", NVML's "00000000:81:00.0" and the short "81:00.0", in either case. Throws Error
  /// that quotes the text.
  static PciAddress parse(std::string_view text);
  /// The same without an exception.
  static std::optional<PciAddress> try_parse(std::string_view text);
};

}  // namespace muster::placement
