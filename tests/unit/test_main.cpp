// SPDX-License-Identifier: Apache-2.0
#include "run_tests.hpp"

int main(int argc, char** argv) { return run_tests(argc, argv); }
