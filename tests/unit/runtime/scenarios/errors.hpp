// SPDX-License-Identifier: Apache-2.0
// Catches errors in tests.
#pragma once

#include "catch.hpp"
#include "has.hpp"
#include "muster/error.hpp"

/// The Error that `call` throws; fails the test if there is none.
template <typename Call>
muster::Error catch_error(Call call) {
  try {
    call();
  } catch (const muster::Error& error) {
    return error;
  }
  FAIL("no error");
  return muster::Error(muster::ErrorCode::usage, "");
}

template <typename Call>
muster::ErrorCode catch_error_code(Call call) {
  return catch_error(call).code();
}
