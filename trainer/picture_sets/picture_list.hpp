// SPDX-License-Identifier: Apache-2.0
// Lists of pictures: lines of words with spaces or tabs between. A first line with the word "path" names the
// columns, such as "image_id class_id super_class_id path" of Stanford Online Products' Ebay_train.txt (H. O.
// Song et al., "Deep Metric Learning via Lifted Structured Feature Embedding", 2016). Without such a line,
// lines are "path label".
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "picture_sets/picture_files.hpp"

namespace muster::picture_sets {

/// The pictures of a list's text. `column`: the name of the column with the labels; empty: "label". Labels
/// are numbers from 0 on. The path may contain spaces if its column is the first or the last. `list` is for
/// the message.
/// @throws muster::Error(ErrorCode::usage), with the line.
std::vector<PictureFile> parse_picture_list(std::string_view text, const std::string& column,
                                            const std::filesystem::path& list);

}  // namespace muster::picture_sets
