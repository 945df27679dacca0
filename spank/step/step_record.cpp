// SPDX-License-Identifier: Apache-2.0
#include "step/step_record.hpp"

#include "step/record.hpp"

namespace muster::spank {

MUSTER_RECORD_ENUMERATION(Mode, strict)
MUSTER_RECORD_ENUMERATION(MemoryPolicy, bind)
MUSTER_RECORD_ENUMERATION(Visible, node)
MUSTER_RECORD_ENUMERATION(placement::Distance, unknown)
MUSTER_RECORD_ENUMERATION(placement::NicKind, unknown)
MUSTER_RECORD_ENUMERATION(placement::Origin, derived)

MUSTER_RECORD_FIELDS(placement::PciAddress, domain, bus, device, function)
MUSTER_RECORD_FIELDS(placement::PciPath, host_bridge, bridges)
MUSTER_RECORD_FIELDS(placement::Gpu, pci, domain, near_domains, path, uuid, model, minor)
MUSTER_RECORD_FIELDS(placement::Core, package, domain, cpus)
MUSTER_RECORD_FIELDS(placement::NumaDomain, id, cpus, memory_bytes, gpu_memory, cpus_hidden, distances)
MUSTER_RECORD_FIELDS(placement::Nic, name, port, pci, domain, near_domains, path, kind, up, rate_gbps,
                     interfaces, bond, default_route, leftover_vf, usable, reason)
MUSTER_RECORD_FIELDS(placement::Node, source, host, cores, domains, gpus, nics, notes)
MUSTER_RECORD_FIELDS(placement::MigInstance, uuid, parent)
MUSTER_RECORD_FIELDS(placement::PlacedGpu, pci, uuid, domain, mig)
MUSTER_RECORD_FIELDS(placement::PlacedNic, label, name, port, kind, distance)
MUSTER_RECORD_FIELDS(placement::TaskPlacement, local_rank, gpus, cpus, cores, memory, nics, node_nics,
                     gpu_cpu, gpu_nic, reasons)
MUSTER_RECORD_FIELDS(placement::Placement, tasks, warnings, notes)
MUSTER_RECORD_FIELDS(placement::StepPorts, master, coordinator, workers, origin)
MUSTER_RECORD_FIELDS(placement::JobFacts, rank, world_size, local_rank, local_world_size, master_address,
                     ports, tensorflow_cluster, socket_interface, socket_reason, mpi_interface, fence,
                     visible_gpus, gpus_by_index, shown_gpus, first_own, cuda_visible_devices, quota_cpus)
MUSTER_RECORD_FIELDS(placement::Variable, name, value, reason, origin)
MUSTER_RECORD_FIELDS(placement::Setting, name, value, file)
MUSTER_RECORD_FIELDS(placement::FileSettings, user_files, profiles, nccl_conf)
MUSTER_RECORD_FIELDS(EnabledParts, gpu, cpu, memory, nic, env, ranks)
MUSTER_RECORD_FIELDS(StepOptions, mode, explicitly_requested, parts, visible, report, explain, json,
                     tasks_per_gpu)
MUSTER_RECORD_FIELDS(StepShape, node_list, tasks_per_node, distribution, plane_size, world_size,
                     explicit_layout)
MUSTER_RECORD_FIELDS(GpuRequest, per_task, shared, bound, binding, tasks_per_gpu)
MUSTER_RECORD_FIELDS(SlurmFacts, job_id, leader_job, step_id, cluster, partition, host, nodes, node_index,
                     local_tasks, world_size, ranks, shape, cpus_per_task, cpus_requested, gpu_request, gpus,
                     cuda_devices, heterogeneous, components, cpus, step_cores, memory, cpu_binding,
                     reserved_ports, srun_host)
MUSTER_RECORD_FIELDS(MigInstance, gpu_minor, gpu_instance, compute_instance, capabilities)
MUSTER_RECORD_FIELDS(StepGpus, minors, instances, cuda_minors, all)
MUSTER_RECORD_FIELDS(TaskEnvironment, parts, job, left_out, file_settings)
MUSTER_RECORD_FIELDS(ReportAddress, hosts, port, token)

struct RecordAccess {
  template <typename Record, typename AnyFile>
  static void file(Record& record, AnyFile& file) {
    auto& [path, node_folder] = file;
    record(path, node_folder);
  }
};

template <typename Record>
void fields(Record& record, RecordValue<Record, PlanFile>& file) {
  RecordAccess::file(record, file);
}

MUSTER_RECORD_FIELDS(Step, facts, options, node, gpus, placement, environment, plan_milliseconds,
                     report_address, plan_file)

std::string write_record(const Step& step) {
  RecordWriter record;
  record(step);
  return record.take();
}

Step read_record(std::string_view bytes, std::size_t tasks) {
  RecordReader record(bytes);
  Step step;
  record(step);
  record.end();
  if (static_cast<std::size_t>(step.facts.local_tasks) != tasks || step.placement.tasks.size() != tasks ||
      step.facts.ranks.size() != tasks)
    throw std::runtime_error("the plan's record is not of this step");
  return step;
}

}  // namespace muster::spank
