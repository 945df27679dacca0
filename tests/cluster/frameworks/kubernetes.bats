#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The manifests of etc/kubernetes against the schemas of Kubernetes, JobSet, Kubeflow Trainer, MPIJob and Volcano.
# Run by ./check --frameworks after tests/cluster/frameworks/install.
load ../setup

python() { printf '%s/frameworks/kubernetes/bin/python3' "$MUSTER_BUILD"; }

checked() { "$(python)" "$REPOSITORY/tests/cluster/frameworks/check_manifests.py" "$@"; }

setup() {
  [ -x "$(python)" ] || skip "$(python) is missing: run tests/cluster/frameworks/install, which gets it from PyPI"
}

@test "each manifest fits its schema, and its numbers of ranks agree" {
  run -0 checked "$REPOSITORY"/etc/kubernetes/*.yaml
  [ "$(grep -c ': good' <<<"$output")" = 5 ]
}

@test "rendered manifests fit their schemas, and a command's words stay as they are" {
  local file=$BATS_TEST_TMPDIR/job.toml
  cat >"$file" <<'JOB'
name = "odd-words"
nodes = 3
tasks_per_node = 2
gpus_per_task = 1
cpus_per_task = 4
memory_gib_per_task = 8
time_minutes = 90
image = "registry.example/image@sha256:00"
command = ["./my train", "", "yes", "1e3", "a: b", "a'b\"c\\", "$HOME $$ $(WORLD_SIZE)", "#x", "[é]", "{a}", "-", "--x=1,2"]
environment = { PRICE = "$1", ON = "on" }
kubernetes = { namespace = "team" }
JOB
  "$MUSTER_BUILD/bin/muster" render "$file" --to jobset --set preemptible=true >"$BATS_TEST_TMPDIR/jobset.yaml"
  "$MUSTER_BUILD/bin/muster" render "$file" --to kubernetes-mpijob >"$BATS_TEST_TMPDIR/mpijob.yaml"
  run -0 checked "$BATS_TEST_TMPDIR"/*.yaml
  "$(python)" - "$file" "$BATS_TEST_TMPDIR"/*.yaml <<'CHECK'
import sys
import tomllib
import yaml
def containers(node):
    if isinstance(node, dict):
        yield from node.get("containers", [])
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else []:
        yield from containers(value)
with open(sys.argv[1], "rb") as file:
    job = tomllib.load(file)
for path in sys.argv[2:]:
    with open(path) as file:
        container = next(containers(yaml.safe_load(file)))
    words = [word.replace("$$", "$") for word in container["command"] + container["args"]]  # as Kubernetes does
    assert words[-len(job["command"]):] == job["command"], words
    values = {variable["name"]: variable["value"].replace("$$", "$") for variable in container["env"]}
    assert job["environment"].items() <= values.items(), values
CHECK
}

@test "a field or a value that no schema has is found" {
  local change
  for change in jobset/failurePolicy/failurePolicies jobset/mountPath/mountpath jobset/'completions: 2'/'completions: 3' \
    trainjob/numNodes/nodes mpijob/slotsPerWorker/slots mpijob/'slotsPerWorker: 8'/'slotsPerWorker: "8"' mpijob/v2beta1/v1 \
    mpijob/'cleanPodPolicy: Running'/'cleanPodPolicy: Always' mpijob/Launcher/Master mpijob/backoffLimit/backOffLimit \
    mpijob/WaitForWorkersReady/WhenReady mpijob/'name: muster-train'/"name: m$(printf '%054d' 0)" \
    volcano/maxRetry/maxRetries volcano/'svc: .]'/'ssh: []' volcano/PodFailed/PodFail volcano/'replicas: 2'/'replicas: 3' \
    volcano/RestartJob/Restart volcano/PodEvicted/PodFailed \
    gpu-and-nic/matchAttribute/attribute; do
    IFS=/ read -r file from to <<<"$change"
    sed "s/$from/$to/" "$REPOSITORY/etc/kubernetes/$file.yaml" >"$BATS_TEST_TMPDIR/$file.yaml"
    run ! checked "$BATS_TEST_TMPDIR/$file.yaml"
  done
}

@test "a manifest is also checked by the definition of its kind in the folder MUSTER_CRDS" {
  export MUSTER_CRDS=$BATS_TEST_TMPDIR
  cat >"$MUSTER_CRDS/mpijobs.yaml" <<'DEFINITION'
kind: CustomResourceDefinition
spec:
  group: kubeflow.org
  names: {kind: MPIJob}
  versions:
    - name: v2beta1
      schema:
        openAPIV3Schema:
          properties:
            apiVersion: {type: string}
            kind: {type: string}
            metadata: {type: object}
            spec:
              properties:
                slotsPerWorker: {type: integer}
                launcherCreationPolicy: {type: string}
                runPolicy: {type: object}
                mpiReplicaSpecs: {type: object, additionalProperties: {type: object}}
DEFINITION
  run -0 checked "$REPOSITORY"/etc/kubernetes/*.yaml
  [ "$(grep ', also by its definition$' <<<"$output")" = "MPIJob muster-train: good, also by its definition" ]
  sed -i '/slotsPerWorker/d' "$MUSTER_CRDS/mpijobs.yaml"
  run ! checked "$REPOSITORY/etc/kubernetes/mpijob.yaml"
  [[ "$output" == *"'slotsPerWorker' was unexpected"* ]]
}
