// SPDX-License-Identifier: Apache-2.0
// The doctor's checks. Each is collective: every rank makes the same calls in the same order. Rank 0 gets the
// rows; those of other ranks are empty or partial. Every wait has a deadline.
#pragma once

#include <string>
#include <vector>

#include "doctor/check_table.hpp"
#include "muster/job.hpp"
#include "preflight/preflight.hpp"

namespace muster::cli::doctor {

/// The input of the checks.
struct DoctorContext {
  Job& job;
  std::vector<bootstrap::Finding> findings;  ///< findings of the preflight
  double join_seconds = 0;
  double all_reduce_on_node = 0;  ///< seconds on this rank, 0 when not measured
};

/// How the job was joined and how long a barrier over its control plane takes.
std::vector<Row> check_join(DoctorContext& context);
/// The ports that the job may use for the rendezvous without PMIx, and which of them are free on rank 0's
/// host.
std::vector<Row> check_ports(DoctorContext& context);
/// Whether a PMIx fence holds back the ranks of other hosts: the last host's first rank enters the fence 300
/// ms late, and the other ranks check whether they were released before. Once plain, once collecting.
std::vector<Row> check_fences(DoctorContext& context);
/// Offset of every host's clock from rank 0's.
std::vector<Row> check_clocks(DoctorContext& context);
/// Versions of libmuster, plugin, driver and NCCL.
std::vector<Row> check_versions(DoctorContext& context);
/// The ranks' GPUs, and whether they may open each other's.
std::vector<Row> check_gpus(DoctorContext& context);
/// The NVLink fabric of the ranks' GPUs: whether it is up and healthy, and its cliques.
std::vector<Row> check_fabric(DoctorContext& context);
/// The interface and the RDMA adapters that NCCL would use on each host.
std::vector<Row> check_network(DoctorContext& context);
/// How much memory the ranks may lock, and what is free in /dev/shm.
std::vector<Row> check_limits(DoctorContext& context);
/// Variables that differ between ranks.
std::vector<Row> check_variables(DoctorContext& context);
/// A small all-reduce on each host and across hosts, with a check of the sums. Not on GPUs when the preflight
/// has a fatal finding.
std::vector<Row> check_all_reduce(DoctorContext& context);
/// Whether a node is slower than the other nodes: see detect_stragglers(). Runs after check_all_reduce().
std::vector<Row> check_nodes(DoctorContext& context);

/// The preflight's findings on these subjects, as rows.
std::vector<Row> rows_from_findings(const std::vector<bootstrap::Finding>& findings,
                                    const std::vector<std::string>& subjects);

/// The rows of check_gpus(), check_fabric() and check_network() for all ranks' records and the preflight's
/// findings about them. `used`: the job runs on GPUs. Pure.
std::vector<Row> judge_gpus(const std::vector<bootstrap::JoinRecord>& records,
                            const std::vector<bootstrap::Finding>& findings, bool used);
std::vector<Row> judge_fabric(const std::vector<bootstrap::JoinRecord>& records,
                              const std::vector<bootstrap::Finding>& findings);
std::vector<Row> judge_network(const std::vector<bootstrap::JoinRecord>& records,
                               const std::vector<bootstrap::Finding>& findings, int hosts);

/// Runs one PMIx fence. Returns an empty text, or the error. Waits at most `seconds` for the fence.
/// `collecting` puts a fresh key first and collects.
std::string pmix_fence(bool collecting, int seconds);

}  // namespace muster::cli::doctor
