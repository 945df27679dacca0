// SPDX-License-Identifier: Apache-2.0
// The variables that NCCL reads from files where the environment does not have them.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace muster {

/// The variables of an nccl.conf, as setEnvFile() of NCCL's src/misc/param.cc reads it: one NAME=VALUE a
/// line, no white space removed. Lines that begin with # or have no = or no name are skipped. Names and
/// values are cut at 1023 bytes, lines at a NUL. The first line with a name counts. Pure.
std::map<std::string, std::string> parse_nccl_conf(std::string_view text);

/// The same for a file. Only regular files up to 64 KiB; others count as empty.
std::map<std::string, std::string> read_nccl_conf(const std::string& path);

/// The file in which NCCL looks for the user's variables: the value of NCCL_CONF_FILE if it is not empty,
/// else .nccl.conf in the home of the user database, which HOME does not change. Empty: the user has no home.
std::string find_user_nccl_conf(const std::string& nccl_conf_file);

/// The variables that NCCL's initEnv() would read from files: from NCCL_CONF_FILE, or without it
/// ~/.nccl.conf, then those that it does not have from /etc/nccl.conf. `root` is put before absolute names.
std::map<std::string, std::string> read_nccl_confs(const std::string& root = "");

}  // namespace muster
