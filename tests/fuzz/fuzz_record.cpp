// SPDX-License-Identifier: Apache-2.0
// A rank's hello, and what is made of it on every other rank.
#include "launcher/this_process.hpp"
#include "roster/record.hpp"
#include "roster/roster.hpp"

using namespace muster;
using namespace muster::bootstrap;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<Record> records(1);
  try {
    records.push_back(decode({data, size}));
  } catch (const Error&) {
    return 0;
  }
  Record const again = decode(encode(records.back()));
  if (encode(again) != encode(records.back())) std::abort();
  records.back().hello.rank = 1;
  std::vector<Hello> roster{records[0].hello, records[1].hello};
  seat(roster);
  leaders_of(records);
  name_of_ranks(roster, {0, 1});
  shares_cores(roster, 1);
  try {
    check_roster(records);
  } catch (const Error&) {
  }
  return 0;
}
