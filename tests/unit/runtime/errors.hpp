// SPDX-License-Identifier: Apache-2.0
// What tests ask of errors.
#pragma once

#include "catch.hpp"
#include "has.hpp"
#include "muster/error.hpp"

/// What `call` throws; a failed test when it throws no Error.
template <typename Call>
muster::Error error_of(Call call) {
  try {
    call();
  } catch (const muster::Error& error) {
    return error;
  }
  FAIL("no error");
  return muster::Error(muster::ErrorCode::usage, "");
}

template <typename Call>
muster::ErrorCode fault_of(Call call) {
  return error_of(call).code();
}
