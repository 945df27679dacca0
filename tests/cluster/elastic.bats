#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Ranks of an elastic training run are lost on three nodes. tests/bench/elastic_losses starts the lab.

load setup

@test "elastic: the ranks that are left end with the bytes of a run that lost none" {
  "$REPOSITORY/tests/bench/elastic_losses" --runs 1 --kinds killed,during-mend
}
