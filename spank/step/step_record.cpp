// SPDX-License-Identifier: Apache-2.0
// Carries a planned step from the process that planned it to the tasks.
#include "step/record.hpp"
#include "step/step.hpp"

namespace muster::spank {

template <>
constexpr Mode highest_enumerator<Mode>() {
  return Mode::strict;
}
template <>
constexpr MemoryPolicy highest_enumerator<MemoryPolicy>() {
  return MemoryPolicy::bind;
}
template <>
constexpr Visible highest_enumerator<Visible>() {
  return Visible::node;
}
template <>
constexpr placement::Distance highest_enumerator<placement::Distance>() {
  return placement::Distance::unknown;
}
template <>
constexpr placement::NicKind highest_enumerator<placement::NicKind>() {
  return placement::NicKind::unknown;
}
template <>
constexpr placement::Origin highest_enumerator<placement::Origin>() {
  return placement::Origin::derived;
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::PciAddress>& address) {
  auto& [domain, bus, device, function] = address;
  record(domain, bus, device, function);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::PciPath>& path) {
  auto& [host_bridge, bridges] = path;
  record(host_bridge, bridges);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::Gpu>& gpu) {
  auto& [pci, domain, near_domains, path, uuid, model, minor] = gpu;
  record(pci, domain, near_domains, path, uuid, model, minor);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::Core>& core) {
  auto& [package, domain, cpus] = core;
  record(package, domain, cpus);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::NumaDomain>& numa) {
  auto& [id, cpus, memory_bytes, gpu_memory, cpus_hidden, distances] = numa;
  record(id, cpus, memory_bytes, gpu_memory, cpus_hidden, distances);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::Nic>& nic) {
  auto& [name, port, pci, domain, near_domains, path, kind, up, rate_gbps, interfaces, bond, default_route,
         leftover_vf, usable, reason] = nic;
  record(name, port, pci, domain, near_domains, path, kind, up, rate_gbps, interfaces, bond, default_route,
         leftover_vf, usable, reason);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::Node>& node) {
  auto& [source, host, cores, domains, gpus, nics, notes] = node;
  record(source, host, cores, domains, gpus, nics, notes);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::MigInstance>& instance) {
  auto& [uuid, parent] = instance;
  record(uuid, parent);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::PlacedGpu>& gpu) {
  auto& [pci, uuid, domain, mig] = gpu;
  record(pci, uuid, domain, mig);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::PlacedNic>& nic) {
  auto& [label, name, port, kind, distance] = nic;
  record(label, name, port, kind, distance);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::TaskPlacement>& task) {
  auto& [local_rank, gpus, cpus, cores, memory, nics, node_nics, gpu_cpu, gpu_nic, reasons] = task;
  record(local_rank, gpus, cpus, cores, memory, nics, node_nics, gpu_cpu, gpu_nic, reasons);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::Placement>& placement) {
  auto& [tasks, warnings, notes] = placement;
  record(tasks, warnings, notes);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::StepPorts>& ports) {
  auto& [master, coordinator, workers, origin] = ports;
  record(master, coordinator, workers, origin);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::JobFacts>& job) {
  auto& [rank, world_size, local_rank, local_world_size, master_address, ports, tensorflow_cluster,
         socket_interface, socket_reason, mpi_interface, fence, visible_gpus, gpus_by_index, shown_gpus,
         first_own, cuda_visible_devices] = job;
  record(rank, world_size, local_rank, local_world_size, master_address, ports, tensorflow_cluster,
         socket_interface, socket_reason, mpi_interface, fence, visible_gpus, gpus_by_index, shown_gpus,
         first_own, cuda_visible_devices);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::Variable>& variable) {
  auto& [name, value, reason, origin] = variable;
  record(name, value, reason, origin);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::Setting>& setting) {
  auto& [name, value, file] = setting;
  record(name, value, file);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, placement::FileSettings>& file_settings) {
  auto& [user_files, profiles, nccl_conf] = file_settings;
  record(user_files, profiles, nccl_conf);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, EnabledParts>& parts) {
  auto& [gpu, cpu, memory, nic, env, ranks] = parts;
  record(gpu, cpu, memory, nic, env, ranks);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, StepOptions>& options) {
  auto& [mode, explicitly_requested, parts, visible, report, explain, json, tasks_per_gpu] = options;
  record(mode, explicitly_requested, parts, visible, report, explain, json, tasks_per_gpu);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, StepShape>& shape) {
  auto& [node_list, tasks_per_node, distribution, plane_size, world_size, explicit_layout] = shape;
  record(node_list, tasks_per_node, distribution, plane_size, world_size, explicit_layout);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, GpuRequest>& request) {
  auto& [per_task, shared, bound, binding, tasks_per_gpu] = request;
  record(per_task, shared, bound, binding, tasks_per_gpu);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, SlurmFacts>& facts) {
  auto& [uid, job_id, step_id, host, local_tasks, world_size, ranks, cpus_per_task, cpus_requested,
         gpu_request, gpus, cuda_devices, heterogeneous, components, cpus, step_cores, memory, cpu_binding] =
      facts;
  record(uid, job_id, step_id, host, local_tasks, world_size, ranks, cpus_per_task, cpus_requested,
         gpu_request, gpus, cuda_devices, heterogeneous, components, cpus, step_cores, memory, cpu_binding);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, MigInstance>& instance) {
  auto& [gpu_minor, gpu_instance, compute_instance, capabilities] = instance;
  record(gpu_minor, gpu_instance, compute_instance, capabilities);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, StepGpus>& gpus) {
  auto& [whole, instances] = gpus;
  record(whole, instances);
}

struct RecordAccess {
  template <typename Record, typename Environment>
  static void environment(Record& record, Environment& environment) {
    auto& [host, parts, job, left_out, file_settings, warnings] = environment;
    record(host, parts, job, left_out, file_settings, warnings);
  }
  template <typename Record, typename AnyFile>
  static void file(Record& record, AnyFile& file) {
    auto& [path, node_folder] = file;
    record(path, node_folder);
  }
  // Without the claims and the node's root, which come from slurmstepd.
  template <typename Record, typename AnyStep>
  static void step(Record& record, AnyStep& step) {
    auto& [facts, options, node, minors, instances, cuda_minors, gpus, step_gpus, placement, environment,
           claims, plan_milliseconds, report_address, plan_file, root] = step;
    record(facts, options, node, minors, instances, cuda_minors, gpus, step_gpus, placement, environment,
           plan_milliseconds, report_address, plan_file);
  }
};

template <typename Record>
void fields(Record& record, RecordValue<Record, ReportAddress>& address) {
  auto& [hosts, port, token] = address;
  record(hosts, port, token);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, PlanFile>& file) {
  RecordAccess::file(record, file);
}

template <typename Record>
void fields(Record& record, RecordValue<Record, TaskEnvironment>& environment) {
  RecordAccess::environment(record, environment);
}

std::string Step::to_record() const {
  RecordWriter record;
  RecordAccess::step(record, *this);
  return record.take();
}

std::unique_ptr<Step> Step::from_record(std::string_view bytes, RowClaims claims, const NodeRoot& root) {
  RecordReader record(bytes);
  std::unique_ptr<Step> step(new Step());
  RecordAccess::step(record, *step);
  record.end();
  const auto tasks = static_cast<std::size_t>(step->facts_.local_tasks);
  if (step->placement_.tasks.size() != tasks || step->facts_.ranks.size() != tasks || claims.tasks() != tasks)
    throw std::runtime_error("the plan's record is not of this step");
  step->claims_ = std::move(claims);
  step->root_ = &root;
  return step;
}

}  // namespace muster::spank
