// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "slurm/launcher_daemons.hpp"

using namespace muster::spank;

TEST_CASE("The daemons that mpirun starts through srun are recognized by name") {
  for (const char* program : {"orted", "/usr/bin/orted", "/opt/openmpi-5/bin/prted", "hydra_pmi_proxy",
                              "/opt/intel/mpi/bin/hydra_bstrap_proxy"})
    CHECK(is_launcher_daemon(program));
  for (const char* program : {"", "/", "python3", "orted.sh", "/opt/orted/train", "mpirun"})
    CHECK_FALSE(is_launcher_daemon(program));
}

TEST_CASE("For a launcher's daemon only the network variables are enabled") {
  const EnabledParts parts = parts_for_daemon(EnabledParts{});
  CHECK((parts.env && parts.nic));
  CHECK_FALSE((parts.gpu || parts.cpu || parts.ranks));
  CHECK(parts.memory == MemoryPolicy::off);
  CHECK_FALSE(is_switched_off(parts, "GLOO_SOCKET_IFNAME"));
  for (const char* own : {"RANK", "MASTER_ADDR", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "MUSTER_GPUS"})
    CHECK(is_switched_off(parts, own));
  EnabledParts off;
  off.env = off.nic = false;
  CHECK_FALSE(parts_for_daemon(off).env);
}
