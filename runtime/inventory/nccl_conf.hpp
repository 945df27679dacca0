// SPDX-License-Identifier: Apache-2.0
// The variables that NCCL takes from files, where the environment does not have them.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace muster::bootstrap {

/// The NCCL_* variables of an nccl.conf, as setEnvFile() of NCCL's src/misc/param.cc reads it: one NAME=VALUE
/// a line without any white space removed, lines that begin with # or have no = passed over, values cut at
/// 1023 bytes and, like lines, at a NUL, the first of a name counting. Pure.
std::map<std::string, std::string> parse_nccl_conf(std::string_view text);

/// What NCCL would find in files, by initEnv() there: NCCL_CONF_FILE, or without it ~/.nccl.conf, and then
/// /etc/nccl.conf for what that does not have. Regular files of up to 64 KiB; others count as empty. `root`:
/// absolute names are below this folder.
std::map<std::string, std::string> read_nccl_confs(const std::string& root = "");

}  // namespace muster::bootstrap
