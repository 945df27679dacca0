#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Jobs of random calls in which a rank or a link fails, by srun with PMIx and with MUNGE, on a lab that
# tests/chaos starts; ./check --chaos runs many.
load setup

by_srun() { "$REPOSITORY/tests/chaos/chaos" "$MUSTER_BUILD/bin/chaos_ranks" --launcher pmix --launcher munge "$@"; }

@test "the jobs in which something was wrong once end as they must" { by_srun --kept "$REPOSITORY/tests/chaos/kept_jobs.txt"; }
@test "jobs of every kind of fault end as they must" { by_srun --jobs 16; }
