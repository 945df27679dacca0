// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "picture_sets/picture_files.hpp"

namespace muster::picture_sets {

/// Names of a folder's subfolders, in the order of their bytes: the classes, numbered from 0. Those that
/// begin with a dot are left out.
/// @throws muster::Error(ErrorCode::usage) when the folder cannot be read.
std::vector<std::string> list_classes(const std::filesystem::path& folder);

/// The files named .jpg, .jpeg or .png, in any case, below each class's folder, class by class in the order
/// of their paths. A class may have no folder.
/// @throws muster::Error(ErrorCode::usage): a folder that is no class, a class without pictures.
std::vector<PictureFile> list_class_files(const std::filesystem::path& folder,
                                          const std::vector<std::string>& classes);

/// Whether `ending`, with its dot and in any case, is that of a picture's file.
bool is_picture_ending(const std::string& ending);

}  // namespace muster::picture_sets
