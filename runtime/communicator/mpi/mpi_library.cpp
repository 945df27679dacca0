// SPDX-License-Identifier: Apache-2.0
#include "communicator/mpi/mpi_library.hpp"

#include <fmt/format.h>

#include <array>

namespace muster::detail {

const MpiLibrary& MpiLibrary::get() {
  static const MpiLibrary library;
  return library;
}

bool MpiLibrary::is_initialised() {
  if (!SharedObject::is_loaded(variable, file)) return false;
  int found = 0;
  return get().initialized(&found) == MPI_SUCCESS && found != 0;
}

std::string MpiLibrary::error_text(int code) const {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (error_string(code, text.data(), &length) != MPI_SUCCESS) return fmt::format("MPI error {}", code);
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace muster::detail
