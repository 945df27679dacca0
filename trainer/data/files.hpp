// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace muster::data {

/// Finds the regular files that --data names: a file, a folder (every regular file below it), or, when no
/// such path exists, a comma list of files, folders and shell patterns. Follows symbolic links to files, but
/// not links to folders inside a folder. Each real file occurs once.
/// Key: the real path, so the order is the same on every rank. Value: the name by which the file was found,
/// which decides its kind; the smallest of several names.
/// @throws muster::Error(ErrorCode::usage): no such path, no match, no regular file.
std::map<std::filesystem::path, std::filesystem::path> find_data_files(const std::string& where);

}  // namespace muster::data
