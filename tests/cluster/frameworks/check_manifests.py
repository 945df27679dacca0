#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_manifests.py FILE...: checks manifests against the schemas of Kubernetes (kubernetes-validate), and of JobSet and Kubeflow Trainer
(kubeflow-trainer-api): no field is unknown or of another type. No package has the schemas of MPIJob and of Volcano's Job: their pods are checked
as Kubernetes' own, and the fields around these as MPI_JOB and VOLCANO_JOB say. The numbers of ranks in a file must agree. MUSTER_CRDS names a folder
of operators' CustomResourceDefinitions in YAML: manifests of their kinds are checked by these, too."""
import functools
import os
import pathlib
import sys

import jsonschema
import kubernetes_validate
import yaml
from kubeflow_trainer_api import models

KUBERNETES = "1.37"
COUNT, POSITIVE, TEXT = {"type": "integer", "minimum": 0}, {"type": "integer", "minimum": 1}, {"type": "string"}


def fields(properties, required=()):
    """The JSON schema of an object that has these fields alone."""
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": list(required)}


def one_of(*values):
    return {"enum": list(values)}


def resource(api_version, kind, spec):
    """The JSON schema of a resource. Names are DNS labels, since pods' names and services are made of them."""
    name = {"type": "string", "pattern": "^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"}
    metadata = fields({"name": name, "namespace": TEXT, "labels": {"type": "object"}}, ["name"])
    properties = {"apiVersion": {"const": api_version}, "kind": {"const": kind}, "metadata": metadata, "spec": spec}
    return fields(properties, properties)


POD_TEMPLATE = fields({"metadata": {"type": "object"}, "spec": {"type": "object"}}, ["spec"])


def replica(replicas):
    return fields({"replicas": replicas, "restartPolicy": one_of("Never", "OnFailure"), "template": POD_TEMPLATE}, ["template"])


# After the definition of mpijobs.kubeflow.org (kubeflow/mpi-operator: manifests/base, and charts for the values), without what no manifest here has.
MPI_JOB = resource("kubeflow.org/v2beta1", "MPIJob", fields({
    "slotsPerWorker": POSITIVE, "launcherCreationPolicy": one_of("AtStartup", "WaitForWorkersReady"),
    "runPolicy": fields({"cleanPodPolicy": one_of("None", "Running", "All"), "ttlSecondsAfterFinished": COUNT, "activeDeadlineSeconds": COUNT,
                         "backoffLimit": COUNT, "suspend": {"type": "boolean"}}),
    "sshAuthMountPath": TEXT, "mpiImplementation": one_of("OpenMPI", "Intel", "MPICH"),
    "mpiReplicaSpecs": fields({"Launcher": replica({"const": 1}), "Worker": replica(POSITIVE)}, ["Launcher"])}, ["mpiReplicaSpecs"]))

# After the definition of jobs.batch.volcano.sh (volcano-sh/volcano: config/crd) and the checks of its webhook (admission/jobs/validate), likewise.
VOLCANO_EVENTS = ("*", "PodPending", "PodRunning", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated")
VOLCANO_ACTIONS = ("AbortJob", "RestartJob", "RestartTask", "TerminateJob", "CompleteJob", "ResumeJob")
VOLCANO_POLICIES = {"type": "array", "items": fields({"event": one_of(*VOLCANO_EVENTS), "action": one_of(*VOLCANO_ACTIONS), "timeout": TEXT}, ["event", "action"])}
DNS_NAME = {"type": "string", "maxLength": 253, "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}
VOLCANO_JOB = resource("batch.volcano.sh/v1alpha1", "Job", fields({
    "schedulerName": {"const": "volcano"}, "minAvailable": COUNT, "maxRetry": COUNT, "queue": DNS_NAME, "priorityClassName": DNS_NAME,
    "plugins": {"type": "object", "additionalProperties": {"type": "array", "items": TEXT}}, "policies": VOLCANO_POLICIES,
    "tasks": {"type": "array", "minItems": 1, "items": fields({"name": {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
                                                "replicas": COUNT, "minAvailable": COUNT, "maxRetry": COUNT, "policies": VOLCANO_POLICIES,
                                                "template": POD_TEMPLATE})}}))


def check_as_core(manifest):
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def check_as_model(manifest, model):
    """The generated models drop unknown fields."""
    assert model.from_dict(manifest).to_dict() == manifest, "a field is unknown"


def strict(schema):
    """The schema without unknown fields, which an API server refuses from kubectl."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: strict(value) for name, value in schema.items()}
    if isinstance(closed.get("properties"), dict) and not closed.get("x-kubernetes-preserve-unknown-fields"):
        closed.setdefault("additionalProperties", False)
    return closed


@functools.lru_cache
def definitions():
    """(apiVersion, kind) → schema, of the files in MUSTER_CRDS."""
    found = {}
    for file in pathlib.Path(os.environ["MUSTER_CRDS"]).glob("*.y*ml") if "MUSTER_CRDS" in os.environ else []:
        for manifest in yaml.safe_load_all(file.read_text()):
            if manifest and manifest["kind"] == "CustomResourceDefinition":
                spec = manifest["spec"]
                found.update({(f"{spec['group']}/{version['name']}", spec["names"]["kind"]): strict(version["schema"]["openAPIV3Schema"])
                              for version in spec["versions"]})
    return found


def pod_specs(manifest):
    if isinstance(manifest, dict):
        if "containers" in manifest:
            yield manifest
        for value in manifest.values():
            yield from pod_specs(value)
    if isinstance(manifest, list):
        for value in manifest:
            yield from pod_specs(value)


def environment(container):
    return {variable["name"]: variable.get("value") for variable in container["env"]}


def check_job_set(manifest):
    check_as_model(manifest, models.JobsetV1alpha2JobSet)
    (ranks,) = manifest["spec"]["replicatedJobs"]
    job = ranks["template"]["spec"]
    check_as_core({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": job})
    (container,) = job["template"]["spec"]["containers"]
    variables = environment(container)
    assert job["completions"] == job["parallelism"] == int(variables["WORLD_SIZE"])
    name = manifest["metadata"]["name"]
    assert variables["MASTER_ADDR"] == f"{name}-{ranks['name']}-0-0.{name}"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1


def check_mpi_job(manifest):
    jsonschema.validate(manifest, MPI_JOB)
    spec = manifest["spec"]
    (worker,) = spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert spec["slotsPerWorker"] == worker["resources"]["limits"]["nvidia.com/gpu"]
    last = f"{manifest['metadata']['name']}-worker-{spec['mpiReplicaSpecs']['Worker']['replicas'] - 1}"
    assert len(last) <= 63, f"no pod may be called {last}"


def check_volcano_job(manifest):
    jsonschema.validate(manifest, VOLCANO_JOB)
    spec = manifest["spec"]
    assert {"env", "svc"} <= spec["plugins"].keys(), "the pods do not know their ranks without the plugins env and svc"
    (task,) = spec["tasks"]
    for policies in (spec["policies"], task["policies"]):
        events = [policy["event"] for policy in policies]
        assert len(events) == len(set(events)) and ("*" not in events or len(events) == 1), f"the policies for {events} contradict each other"
    assert task["replicas"] == spec["minAvailable"]
    (container,) = task["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1


def check_train_job(manifest):
    check_as_model(manifest, models.TrainerV1alpha1TrainJob)
    trainer = manifest["spec"]["trainer"]
    assert trainer["numProcPerNode"] == trainer["resourcesPerNode"]["limits"]["nvidia.com/gpu"]


def check(manifest):
    for pod in pod_specs(manifest):
        check_as_core({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": pod})
    checks = {"jobset.x-k8s.io": check_job_set, "kubeflow.org": check_mpi_job, "batch.volcano.sh": check_volcano_job,
              "trainer.kubeflow.org": check_train_job}
    checks.get(manifest["apiVersion"].split("/")[0], check_as_core)(manifest)
    definition = definitions().get((manifest["apiVersion"], manifest["kind"]))
    if definition:
        jsonschema.validate(manifest, definition)
    return "good, also by its definition" if definition else "good"


def main():
    for file in sys.argv[1:]:
        with open(file) as text:
            for manifest in yaml.safe_load_all(text):
                print(f"{manifest['kind']} {manifest['metadata']['name']}: {check(manifest)}")


if __name__ == "__main__":
    main()
