#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The manifests of etc/kubernetes against the schemas of Kubernetes, JobSet and Kubeflow Trainer. Run by ./check
# --frameworks after tests/cluster/frameworks/install.
load ../setup

python() { printf '%s/frameworks/kubernetes/bin/python3' "$MUSTER_BUILD"; }

checked() { "$(python)" "$REPOSITORY/tests/cluster/frameworks/check_manifests.py" "$@"; }

setup() {
  [ -x "$(python)" ] || skip "$(python) is missing: run tests/cluster/frameworks/install, which gets it from PyPI"
}

@test "each manifest fits its schema, and its numbers of ranks agree" {
  run -0 checked "$REPOSITORY"/etc/kubernetes/*.yaml
  [ "$(grep -c ': good$' <<<"$output")" = 4 ]
}

@test "a field that no schema has is found" {
  local change
  for change in jobset/failurePolicy/failurePolicies jobset/mountPath/mountpath jobset/'completions: 2'/'completions: 3' \
    trainjob/numNodes/nodes mpijob/slotsPerWorker/slots gpu-and-nic/matchAttribute/attribute; do
    IFS=/ read -r file from to <<<"$change"
    sed "s/$from/$to/" "$REPOSITORY/etc/kubernetes/$file.yaml" >"$BATS_TEST_TMPDIR/$file.yaml"
    run ! checked "$BATS_TEST_TMPDIR/$file.yaml"
  done
}
