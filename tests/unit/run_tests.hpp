// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Runs this program's tests as its arguments say; see any of them with --help. Returns the exit code.
int run_tests(int argc, char** argv);
