// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <asio.hpp>

#include "doctor/checks.hpp"
#include "launcher/launch_environment.hpp"
#include "launcher/local_hello.hpp"
#include "roster/rank_list.hpp"

namespace muster::cli::doctor {
namespace {

bool is_free(std::uint16_t port) {
  asio::io_context io;
  asio::ip::tcp::acceptor acceptor(io);
  asio::error_code error;
  acceptor.open(asio::ip::tcp::v4(), error);
  acceptor.set_option(asio::socket_base::reuse_address(true), error);
  acceptor.bind({asio::ip::tcp::v4(), port}, error);
  return !error;
}

}  // namespace

std::vector<Row> check_ports(DoctorContext& context) {
  if (context.job.rank() != 0 || context.job.size() == 1) return {};
  auto const step = bootstrap::read_slurm_step(bootstrap::get_env);
  if (!step)
    return {{Verdict::skipped, "ports", "no Slurm step of several tasks: the launcher gives rank 0's address",
             ""}};
  auto const ports = step->ports.empty() ? bootstrap::derive_ports(step->job, step->port_seed) : step->ports;
  std::vector<int> taken;
  for (auto const port : ports)
    if (!is_free(port)) taken.push_back(port);
  auto const kind = step->ports.empty() ? "derived from job and step" : "reserved by --resv-ports";
  Row row{Verdict::pass, "ports",
          fmt::format("without PMIx the ranks meet on port {}, the first of {} {}; {} of them taken on {}",
                      ports.front(), ports.size(), kind, taken.size(), context.job.roster().front().host),
          ""};
  if (!taken.empty()) row.found += ": " + bootstrap::format_ranges(taken);
  if (2 * taken.size() >= ports.size()) {
    row.verdict = taken.size() == ports.size() ? Verdict::fail : Verdict::warn;
    row.fix = "set MpiParams=ports=… in slurm.conf and start with --resv-ports=2, or with --mpi=pmix";
  }
  return {row};
}

}  // namespace muster::cli::doctor
