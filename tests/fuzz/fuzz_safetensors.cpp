// SPDX-License-Identifier: Apache-2.0
// A safetensors file: first the whole input as a checkpoint's file, then the bytes after the first 8 as a
// header alone, because a fuzzer rarely generates a correct header length.
#include <stdexcept>

#include "checkpoint/safetensors.hpp"
#include "memory_file.hpp"
#include "muster/error.hpp"
#include "printable_error.hpp"

using namespace muster;

namespace {

void check(const std::vector<SafetensorsTensor>& tensors, std::uint64_t data_size) {
  std::uint64_t next = 0;
  for (const auto& tensor : tensors) {
    if (tensor.begin != next || tensor.end < tensor.begin) std::abort();
    next = tensor.end;
  }
  if (next != data_size) std::abort();
}

void read_file(const std::uint8_t* data, std::size_t size) {
  fuzz::MemoryFile const file(data, size);
  try {
    SafetensorsFile const opened(file.path());
    for (const auto& tensor : opened.tensors()) {
      if (tensor.end > size) std::abort();
      std::vector<char> bytes(tensor.end - tensor.begin);
      opened.read(tensor, bytes.data());
    }
  } catch (const Error& error) {
    fuzz::check_printable(error);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read_file(data, size);
  if (size < 8) return 0;
  std::string_view const text(reinterpret_cast<const char*>(data) + 8, size - 8);
  std::size_t const end = text.find_last_of('}');
  if (end == text.npos) return 0;
  std::uint64_t const behind = text.size() - end - 1;
  try {
    check(parse_safetensors_header(text.substr(0, end + 1), behind).tensors, behind);
  } catch (const std::runtime_error& error) {
    fuzz::check_printable(error);
  }
  return 0;
}
