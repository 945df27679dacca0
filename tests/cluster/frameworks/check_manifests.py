#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_manifests.py FILE...: checks manifests against the schemas of Kubernetes (kubernetes-validate), and of JobSet and Kubeflow Trainer
(kubeflow-trainer-api): no field is unknown or of another type. No package has the schemas of MPIJob and of Volcano's Job: their pods are checked
as Kubernetes' own, and the fields around these as MPI_JOB and VOLCANO_JOB say. The numbers of ranks in a file must agree."""
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
    "slotsPerWorker": POSITIVE,
    "runPolicy": fields({"cleanPodPolicy": one_of("None", "Running", "All"), "ttlSecondsAfterFinished": COUNT, "activeDeadlineSeconds": COUNT,
                         "backoffLimit": COUNT, "suspend": {"type": "boolean"}}),
    "sshAuthMountPath": TEXT, "mpiImplementation": one_of("OpenMPI", "Intel", "MPICH"),
    "mpiReplicaSpecs": fields({"Launcher": replica({"const": 1}), "Worker": replica(POSITIVE)}, ["Launcher"])}, ["mpiReplicaSpecs"]))

# After the definition of jobs.batch.volcano.sh (volcano-sh/volcano: config/crd), likewise.
VOLCANO_EVENTS = ("*", "PodPending", "PodRunning", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "TaskFailed", "OutOfSync", "CommandIssued",
                  "JobUpdated")
VOLCANO_POLICIES = {"type": "array", "items": fields({"event": one_of(*VOLCANO_EVENTS), "action": TEXT, "timeout": TEXT, "exitCode": {"type": "integer"}})}
VOLCANO_JOB = resource("batch.volcano.sh/v1alpha1", "Job", fields({
    "schedulerName": {"const": "volcano"}, "minAvailable": COUNT, "maxRetry": COUNT, "queue": TEXT, "priorityClassName": TEXT,
    "plugins": {"type": "object", "additionalProperties": {"type": "array", "items": TEXT}}, "policies": VOLCANO_POLICIES,
    "tasks": {"type": "array", "items": fields({"name": {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
                                                "replicas": COUNT, "minAvailable": COUNT, "maxRetry": COUNT, "policies": VOLCANO_POLICIES,
                                                "template": POD_TEMPLATE})}}))


def check_as_core(manifest):
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def check_as_model(manifest, model):
    """The generated models drop unknown fields."""
    assert model.from_dict(manifest).to_dict() == manifest, "a field is unknown"


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


def check_volcano_job(manifest):
    jsonschema.validate(manifest, VOLCANO_JOB)
    spec = manifest["spec"]
    assert {"env", "svc"} <= spec["plugins"].keys(), "the pods do not know their ranks without the plugins env and svc"
    (task,) = spec["tasks"]
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


def main():
    for file in sys.argv[1:]:
        with open(file) as text:
            for manifest in yaml.safe_load_all(text):
                check(manifest)
                print(f"{manifest['kind']} {manifest['metadata']['name']}: good")


if __name__ == "__main__":
    main()
