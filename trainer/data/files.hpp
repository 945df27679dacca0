// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace muster::data {

/// The regular files that --data names: a file, a folder (every regular file below it), or, where no such
/// path exists, a comma list of files, folders and shell patterns. Symbolic links to files are followed,
/// links to folders inside a folder are not; each real file comes once, in the order of real paths, the same
/// on every rank.
/// The value is the name by which a file was found, which tells its kind; of several the first.
/// @throws muster::Error(ErrorCode::usage): no such path, nothing that matches, no regular file.
std::map<std::filesystem::path, std::filesystem::path> files_of(const std::string& where);

}  // namespace muster::data
