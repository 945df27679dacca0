# SPDX-License-Identifier: Apache-2.0
# Reads lines of vm_probe; prints one row per task and, at the end, "wrong CPUS MEMORY NICS of TASKS". Wrong are: CPUs outside the GPU's NUMA
# domain; a tenth or more of the memory elsewhere; a NIC that is not behind the GPU's PCI switch (only if Muster names one).
/^rank=/ {
  delete f
  for (i = 1; i <= NF; i++) { at = index($i, "="); f[substr($i, 1, at - 1)] = substr($i, at + 1) }
  tasks++
  bad_cpus = f["cpu_domains"] != f["gpu_domains"]
  near = all = 0
  n = split(f["memory"], parts, ",")
  for (i = 1; i <= n; i++) { split(parts[i], page, ":"); all += page[2]; if (page[1] == f["gpu_domains"]) near += page[2] }
  bad_memory = all == 0 || near < 0.9 * all
  bad_nic = f["nics"] != "-" && f["shared"] != f["switch"]
  if (label ~ /Muster/ && f["nics"] == "-") bad_nic = 1
  wrong_cpus += bad_cpus; wrong_memory += bad_memory; wrong_nics += bad_nic
  printf "%-34s %4s  GPU %s on %s  CPUs %-6s on %-7s %s  memory %-13s %s  NIC %-10s %s\n", label, f["rank"], f["gpus"], f["gpu_domains"], f["cpus"],
    f["cpu_domains"], bad_cpus ? "WRONG" : "right", f["memory"], bad_memory ? "WRONG" : "right", f["nics"],
    f["nics"] == "-" ? "" : bad_nic ? "WRONG" : "right"
}
END { printf "wrong %d %d %d of %d\n", wrong_cpus, wrong_memory, wrong_nics, tasks }
