// SPDX-License-Identifier: Apache-2.0
// A file of CIFAR-10, or of CIFAR-100 when the first byte is odd.
#include <cstdlib>

#include "data/cifar.hpp"
#include "muster/error.hpp"
#include "printable_error.hpp"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const data::CifarFormat& format = data[0] % 2 == 0 ? data::cifar10() : data::cifar100();
  try {
    const std::uint64_t records = data::count_cifar_records({data + 1, size - 1}, format, "train.bin");
    if (records == 0 || records * format.record_bytes() != size - 1) std::abort();
    for (std::size_t record = 0; record < records; ++record) {
      if (data[record * format.record_bytes() + format.label_bytes] >= format.classes) std::abort();
    }
  } catch (const Error& error) {
    fuzz::check_printable(error);
  }
  return 0;
}
