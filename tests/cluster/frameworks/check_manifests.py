#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_manifests.py FILE...: checks manifests against the schemas of Kubernetes (kubernetes-validate), and of JobSet and Kubeflow Trainer
(kubeflow-trainer-api): no field is unknown or of another type. MPIJob has no package of its schema: its pods are checked, and its fields by
the names of the operator's v2beta1 API. The numbers of ranks in a file must agree."""
import sys

import kubernetes_validate
import yaml
from kubeflow_trainer_api import models

KUBERNETES = "1.37"
# https://github.com/kubeflow/mpi-operator/tree/master/sdk/python/v2beta1/docs
MPI_JOB = {"apiVersion": str, "kind": str, "metadata": {"name": str, "namespace": str, "labels": dict}, "spec": {
    "slotsPerWorker": int, "runPolicy": {"cleanPodPolicy": str, "backoffLimit": int, "activeDeadlineSeconds": int},
    "mpiReplicaSpecs": {kind: {"replicas": int, "template": {"spec": dict}} for kind in ("Launcher", "Worker")}}}


def check_as_core(manifest):
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def check_as_model(manifest, model):
    """The generated models drop unknown fields."""
    assert model.from_dict(manifest).to_dict() == manifest, "a field is unknown"


def check_names(manifest, names, where="manifest"):
    if not isinstance(names, dict):
        assert isinstance(manifest, names), f"{where} is no {names.__name__}"
        return
    for name, value in manifest.items():
        assert name in names, f"{where} has an unknown field {name}"
        check_names(value, names[name], f"{where}.{name}")


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
    check_names(manifest, MPI_JOB)
    spec = manifest["spec"]
    (worker,) = spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert spec["slotsPerWorker"] == worker["resources"]["limits"]["nvidia.com/gpu"]


def check_train_job(manifest):
    check_as_model(manifest, models.TrainerV1alpha1TrainJob)
    trainer = manifest["spec"]["trainer"]
    assert trainer["numProcPerNode"] == trainer["resourcesPerNode"]["limits"]["nvidia.com/gpu"]


def check(manifest):
    for pod in pod_specs(manifest):
        check_as_core({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": pod})
    {"JobSet": check_job_set, "MPIJob": check_mpi_job, "TrainJob": check_train_job}.get(manifest["kind"], check_as_core)(manifest)


def main():
    for file in sys.argv[1:]:
        with open(file) as text:
            for manifest in yaml.safe_load_all(text):
                check(manifest)
                print(f"{manifest['kind']} {manifest['metadata']['name']}: good")


if __name__ == "__main__":
    main()
