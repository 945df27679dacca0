// SPDX-License-Identifier: Apache-2.0
// Programs that must not compile, and the compiler's message for each; tests/unit/runtime/CMakeLists.txt
// compiles them one by one. Without REFUSED the file compiles.
#include <muster/muster.hpp>
#include <string>
#include <vector>

std::vector<float> make_values();

void refused(muster::Communicator& world) {
  std::vector<float> values(3);
#if REFUSED == 1  // an element type of communicators
  std::vector<bool> flags(3);
  world.all_reduce(flags);
#elif REFUSED == 2  // an element type of communicators
  bool found = false;
  world.all_reduce(found, muster::Reduction::max);
#elif REFUSED == 3  // an element type of communicators
  std::string text = "text";
  world.broadcast(text, 0);
#elif REFUSED == 4  // a temporary cannot be a buffer
  world.all_reduce(make_values());
#elif REFUSED == 5  // a temporary cannot be a buffer
  world.all_gather(1.0f, values);
#elif REFUSED == 6  // the operation writes to this buffer
  const auto& read = values;
  world.all_reduce(read);
#elif REFUSED == 7  // the same element type
  std::vector<double> sums(3);
  world.all_reduce(values, sums);
#elif REFUSED == 8  // the operation writes to this buffer
  world.broadcast(std::span<const float>(values), 0);
#elif REFUSED == 9  // an element type of communicators
  std::vector<std::vector<float> > rows(3, values);
  world.all_reduce(rows);
#endif
  world.all_reduce(values);
}
