// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "step/record.hpp"
#include "step/step_record.hpp"

using namespace muster;
using namespace muster::spank;

namespace {
enum class Colour { red, green };
struct Pair {
  Colour colour = Colour::red;
  std::optional<int> number;
  std::vector<std::string> words;
  CpuSet cpus;
  bool yes = false;
  friend bool operator==(const Pair&, const Pair&) = default;
};
}  // namespace

namespace muster::spank {
MUSTER_RECORD_ENUMERATION(Colour, green)
MUSTER_RECORD_FIELDS(Pair, colour, number, words, cpus, yes)
}  // namespace muster::spank

TEST_CASE("Reading a record returns the values that were written") {
  const std::vector<Pair> pairs = {{}, {Colour::green, -7, {"", std::string("a\0b", 3)}, {0, 5, 700}, true}};
  RecordWriter writer;
  writer(pairs, std::string("end"));
  const std::string bytes = writer.take();
  std::vector<Pair> read;
  std::string end;
  RecordReader reader(bytes);
  reader(read, end);
  CHECK_NOTHROW(reader.end());
  CHECK(read == pairs);
  CHECK(end == "end");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    RecordReader cut(std::string_view(bytes).substr(0, size));
    CHECK_THROWS_WITH(cut(read, end), "the plan's record is damaged");
  }
}

TEST_CASE("A record's counts and enumerators are checked before they are used") {
  std::vector<std::string> words;
  const std::string huge(4, '\xff');
  CHECK_THROWS(RecordReader(huge)(words));
  Colour colour = Colour::red;
  for (const int number : {2, -1}) {
    std::string bytes(sizeof number, '\0');
    std::memcpy(bytes.data(), &number, sizeof number);
    CHECK_THROWS(RecordReader(bytes)(colour));
  }
  bool yes = false;
  CHECK_THROWS(RecordReader("\2")(yes));
  CHECK_THROWS(RecordReader("more").end());
}

TEST_CASE("When a step's record is truncated, damaged or for another number of tasks, it is rejected") {
  const auto empty = [&] {
    // No facts, no GPUs, no tasks: every count and text is empty.
    for (std::size_t size = 0; size < 4096; ++size) {
      const std::string zeros(size, '\0');
      try {
        return write_record(read_record(zeros, 0));
      } catch (const std::runtime_error&) {
      }
    }
    return std::string();
  }();
  REQUIRE_FALSE(empty.empty());
  CHECK(write_record(read_record(empty, 0)) == empty);
  CHECK_THROWS_WITH(read_record(empty.substr(1), 0), "the plan's record is damaged");
  CHECK_THROWS_WITH(read_record(empty + "x", 0), "the plan's record is damaged");
  CHECK_THROWS_WITH(read_record(empty, 2), "the plan's record is not of this step");
}
