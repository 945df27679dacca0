// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "placement/topology/error.hpp"
#include "placement/topology/pci_address.hpp"

using namespace muster::placement;

TEST_CASE("PCI addresses are read in every usual notation and written in one") {
  CHECK(PciAddress::parse("0000:81:00.0").to_string() == "0000:81:00.0");
  CHECK(PciAddress::parse("00000000:AF:1C.7").to_string() == "0000:af:1c.7");
  CHECK(PciAddress::parse("c1:00.0") == PciAddress{0, 0xc1, 0, 0});
  CHECK(PciAddress::parse("10000:01:00.0").to_string() == "10000:01:00.0");
  CHECK(PciAddress::parse("0035:03:00.0").domain == 0x35);
}

TEST_CASE("PCI addresses are ordered by domain, bus, device and function") {
  CHECK(PciAddress::parse("0000:ff:1f.7") < PciAddress::parse("0001:00:00.0"));
  CHECK(PciAddress::parse("0000:0e:00.0") < PciAddress::parse("0000:10:00.0"));
  CHECK(PciAddress::parse("0000:10:1c.0") < PciAddress::parse("0000:10:1d.0"));
  CHECK(PciAddress::parse("0000:10:1c.0") < PciAddress::parse("0000:10:1c.1"));
}

TEST_CASE("Invalid PCI addresses are refused") {
  const auto bad =
      GENERATE("", ".", ":", ":.", "0", "00:00", "0000:00:00", "0000:00:00.", "0000:00:00.8", "0000:00:20.0",
               "0000:100:00.0", "000000000:00:00.0", "0000:00:00.0x", "g000:00:00.0", "0000:-1:00.0",
               "a:b:c:d.0", ":00:00.0", " 0000:00:00.0", "GPU-123");
  CHECK_FALSE(PciAddress::try_parse(bad));
  CHECK_THROWS_AS(PciAddress::parse(bad), Error);
}
