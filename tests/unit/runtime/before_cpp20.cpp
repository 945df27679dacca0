// SPDX-License-Identifier: Apache-2.0
// Compiled as C++17, where the compiler prints one error.
#include <muster/muster.hpp>
