// SPDX-License-Identifier: Apache-2.0
// The doctor's checks. Each is collective: every rank makes the same calls in the same order, and rank 0 gets
// the rows (the others' are empty or partial). No wait is without a deadline.
#pragma once

#include <string>
#include <vector>

#include "doctor/finding_table.hpp"
#include "muster/job.hpp"
#include "preflight/preflight.hpp"

namespace muster::cli::doctor {

/// What the checks work on.
struct Patient {
  Job& job;
  std::vector<bootstrap::Finding> findings;  ///< of the preflight
  double join_seconds = 0;
  double all_reduce_on_node = 0;  ///< seconds on this rank, 0 where it was not tried
};

/// How the job was joined and how long a barrier over its control plane takes.
std::vector<Row> check_join(Patient& patient);
/// Which ports the job may meet on without PMIx, and whether rank 0's host has one of them free.
std::vector<Row> check_ports(Patient& patient);
/// Whether a PMIx fence holds back the ranks of other hosts: the last host's first rank enters one 300 ms
/// late, and the others see whether they were let go before it came. Once plain, once collecting.
std::vector<Row> check_fences(Patient& patient);
/// Every host's clock against rank 0's.
std::vector<Row> check_clocks(Patient& patient);
/// Versions of libmuster, plugin, driver and NCCL.
std::vector<Row> check_versions(Patient& patient);
/// Which GPUs the ranks have, and whether they may open each other's.
std::vector<Row> check_gpus(Patient& patient);
/// The NVLink fabric of the ranks' GPUs: whether it is up and healthy, and its cliques.
std::vector<Row> check_fabric(Patient& patient);
/// The interface and the RDMA adapters that NCCL would take on each host.
std::vector<Row> check_network(Patient& patient);
/// How much memory the ranks may lock, and what is free in /dev/shm.
std::vector<Row> check_limits(Patient& patient);
/// Variables that differ.
std::vector<Row> check_variables(Patient& patient);
/// A small all-reduce on each host and across hosts, with right sums; not on GPUs where the preflight found
/// something fatal.
std::vector<Row> check_all_reduce(Patient& patient);
/// Whether a node is slower than the others: see judge_paces(). After check_all_reduce().
std::vector<Row> check_nodes(Patient& patient);

/// The preflight's findings about one of these subjects as rows.
std::vector<Row> rows_about(const std::vector<bootstrap::Finding>& findings,
                            const std::vector<std::string>& subjects);

/// What check_gpus(), check_fabric() and check_network() make of all ranks' records and the preflight's
/// findings about them; `used`: the job runs on GPUs. Pure.
std::vector<Row> judge_gpus(const std::vector<bootstrap::JoinRecord>& records,
                            const std::vector<bootstrap::Finding>& findings, bool used);
std::vector<Row> judge_fabric(const std::vector<bootstrap::JoinRecord>& records,
                              const std::vector<bootstrap::Finding>& findings);
std::vector<Row> judge_network(const std::vector<bootstrap::JoinRecord>& records,
                               const std::vector<bootstrap::Finding>& findings, int hosts);

/// How one PMIx fence ended for this rank: an empty text, or why it did not. Bounded by `seconds`.
/// `collecting` puts a fresh key first and collects.
std::string pmix_fence(bool collecting, int seconds);

}  // namespace muster::cli::doctor
