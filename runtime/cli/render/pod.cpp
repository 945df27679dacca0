// SPDX-License-Identifier: Apache-2.0
#include "render/pod.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "render/script.hpp"

namespace muster::render {

namespace {

struct Claim {
  const char* name;
  std::string folder, claim;
  bool read_only;
};

std::vector<Claim> claims(const JobDescription& job) {
  std::vector<Claim> found;
  if (!job.data.empty()) found.push_back({"data", job.data, text_of(job, "kubernetes.data_claim", ""), true});
  if (!job.output.empty())
    found.push_back({"output", job.output, text_of(job, "kubernetes.output_claim", ""), false});
  return found;
}

std::string key_secret(const JobDescription& job) {
  return text_of(job, "kubernetes.key_secret", "muster-key");
}

/// NCCL and Muster share memory; an eighth of the pod's, as long as nothing else is given.
std::int64_t shm_gib(const JobDescription& job, int tasks) {
  const auto memory = std::int64_t{job.memory_gib_per_task} * tasks;
  const int given = count_of(job, "kubernetes.shm_gib", 0);
  return given > 0 ? given : std::max<std::int64_t>(1, memory / 8);
}

}  // namespace

void check_for_kubernetes(const JobDescription& job) {
  if (!job.image) reject(job.file, "image is missing: a pod needs one, such as image = \"muster:0.1.0\"");
  if (job.memory_gib_per_task == 0)
    reject(job.file,
           "memory_gib_per_task is missing: a pod needs a limit for its memory to get cores of its own");
  if (job.elastic)
    reject(origin_of(job, "elastic"),
           "a manifest starts all ranks again when one is lost: remove elastic, or --set elastic=false");
  if (job.arguments_required())
    reject(origin_of(job, "arguments"),
           "a manifest has no arguments from outside: put them into command, and remove arguments");
  for (const auto& claim : claims(job))
    if (claim.claim.empty())
      reject(origin_of(job, claim.name),
             fmt::format("{0} needs a volume: set kubernetes.{0}_claim to the name of a "
                         "PersistentVolumeClaim",
                         claim.name));
}

std::string manifest_head(const JobDescription& job, const std::string& target, const std::string& api,
                          const std::string& kind) {
  std::string text = comment(job.description);
  if (const auto secret = key_secret(job); !secret.empty())
    text += std::string(text.empty() ? "" : "#\n") +
            "# The job's key, which keeps other pods out of the job:\n#   kubectl create secret generic " +
            secret + " --from-literal=key=$(openssl rand -hex 32)\n";
  text += std::string(text.empty() ? "" : "#\n") + "# " + rendered_by(job, target) + "\n";
  text += fmt::format("apiVersion: {}\nkind: {}\nmetadata:\n  name: {}\n", api, kind, yaml_quote(job.name));
  if (const auto name = text_of(job, "kubernetes.namespace", ""); !name.empty())
    text += "  namespace: " + yaml_quote(name) + "\n";
  return text + "  labels:\n    muster-description: \"" + job.hash + "\"\n";
}

std::string indented(std::size_t spaces, const std::string& lines) {
  std::string text;
  for (std::size_t at = 0; at < lines.size();) {
    const auto end = lines.find('\n', at) + 1;
    text += std::string(spaces, ' ') + lines.substr(at, end - at);
    at = end;
  }
  return text;
}

std::string yaml_list(const std::vector<std::string>& scalars) {
  std::string list;
  for (const auto& scalar : scalars) list += (list.empty() ? "" : ", ") + container_quote(scalar);
  return "[" + list + "]";
}

std::string image_line(const JobDescription& job) {
  return "image: " + yaml_quote(fallback_text(*job.image, origin_of(job, "image"))) + "\n";
}

std::vector<std::string> program_words(const JobDescription& job) {
  return {"muster", "exec", "--", fallback_text(job.command.front(), origin_of(job, "command"))};
}

std::string arguments_line(const JobDescription& job) {
  std::vector<std::string> words;
  for (std::size_t i = 1; i < job.command.size(); ++i)
    words.push_back(fallback_text(job.command[i], origin_of(job, "command")));
  return words.empty() ? "" : "args: " + yaml_list(words) + "\n";
}

std::string environment_lines(const JobDescription& job,
                              const std::vector<std::pair<std::string, std::string>>& own) {
  std::string text;
  const auto add = [&text](const std::string& name, const std::string& value) {
    text += "  - {name: " + yaml_quote(name) + ", value: " + container_quote(value) + "}\n";
  };
  for (const auto& [name, value] : own) {
    add(name, value);
    for (const auto& [other, text_of_other] : job.environment)
      if (other == name)
        reject(origin_of(job, "environment." + name),
               name + " is set by the manifest: remove it from [environment]");
  }
  for (const auto& [name, value] : job.environment)
    add(name, fallback_text(value, origin_of(job, "environment." + name)));
  return text.empty() ? "" : "env:\n" + text;
}

std::string key_file(const JobDescription& job) {
  return key_secret(job).empty() ? "" : "/etc/muster/key/key";
}

std::string container_lines(const JobDescription& job, int tasks, int gpus) {
  const auto nic = text_of(job, "kubernetes.nic_resource", "");
  // Kubernetes' CPU manager (policy static) gives cores to whole numbers alone.
  std::string text = fmt::format(
      "resources:\n  limits:\n"
      "    # Whole numbers, equal to the requests: Kubernetes' CPU manager (policy static) then gives the\n"
      "    # pod cores of its own.\n"
      "    cpu: \"{}\"\n    memory: {}Gi\n",
      std::int64_t{job.cpus_per_task} * tasks, std::int64_t{job.memory_gib_per_task} * tasks);
  if (gpus > 0)
    text += fmt::format("    {}: {}\n", yaml_quote(text_of(job, "kubernetes.gpu_resource", "nvidia.com/gpu")),
                        gpus);
  if (!nic.empty())
    text += "    " + yaml_quote(nic) +
            ": 1\nsecurityContext:\n  capabilities: {add: [IPC_LOCK]}   # RDMA pins memory\n";
  text += "volumeMounts:\n";
  if (!key_file(job).empty()) text += "  - {name: key, mountPath: /etc/muster/key, readOnly: true}\n";
  text += "  - {name: shm, mountPath: /dev/shm}\n";
  for (const auto& claim : claims(job))
    text += fmt::format("  - {{name: {}, mountPath: {}{}}}\n", claim.name, yaml_quote(claim.folder),
                        claim.read_only ? ", readOnly: true" : "");
  return text;
}

std::string volume_lines(const JobDescription& job, int tasks) {
  std::string text = "volumes:\n";
  if (const auto secret = key_secret(job); !secret.empty())
    text += "  - name: key\n    secret: {secretName: " + yaml_quote(secret) + ", defaultMode: 0400}\n";
  text += fmt::format(
      "  - name: shm             # NCCL and Muster share memory here; the default is 64 MiB\n"
      "    emptyDir: {{medium: Memory, sizeLimit: {}Gi}}\n",
      shm_gib(job, tasks));
  for (const auto& claim : claims(job))
    text += fmt::format("  - name: {}\n    persistentVolumeClaim: {{claimName: {}{}}}\n", claim.name,
                        yaml_quote(claim.claim), claim.read_only ? ", readOnly: true" : "");
  return text;
}

}  // namespace muster::render
