// SPDX-License-Identifier: Apache-2.0
// The decoder of join records, and what every other rank computes from a record.
#include "launcher/local_hello.hpp"
#include "roster/join_record.hpp"
#include "roster/roster.hpp"

using namespace muster;
using namespace muster::bootstrap;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<JoinRecord> records(1);
  try {
    records.push_back(decode_record({data, size}));
  } catch (const Error&) {
    return 0;
  }
  JoinRecord const again = decode_record(encode_record(records.back()));
  if (encode_record(again) != encode_record(records.back())) std::abort();
  records.back().hello.rank = 1;
  std::vector<Hello> roster{records[0].hello, records[1].hello};
  map_ranks_to_hosts(roster);
  host_leaders(records);
  describe_ranks(roster, {0, 1});
  shares_cores(roster, 1);
  try {
    check_roster(records);
  } catch (const Error&) {
  }
  return 0;
}
