// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "picture_sets/picture_source.hpp"

namespace muster::picture_sets {

struct PictureSetOptions {
  std::string data;                  ///< to train on
  std::string validation_data;       ///< empty: see open_picture_set()
  std::string label_column;          ///< of lists; empty: "label"
  double validation_fraction = 0.1;  ///< of `data`; 1: each picture is in both parts
};

/// Pictures to train on and to validate with.
struct PictureSet {
  std::shared_ptr<const PictureSource> training, held_out;
  int classes = 0;
};

/// Whether the data are a folder with `train` and `val`, `validation` or `test`.
bool has_held_out_part(const std::string& data);

/// Opens labelled pictures. `data` and `validation_data` are each
/// - a folder with a folder of pictures for each class;
/// - tar shards as WebDataset writes them: a folder with some, one, or a comma list of files and patterns;
/// - any other file: a list (parse_picture_list()), whose paths are relative to its folder.
/// Without `validation_data`, a folder with `train` and `val`, `validation` or `test` has both parts; of
/// anything else validation_fraction is held out, evenly spread over the labels and over each label's
/// pictures. Labels of lists and shards count from 0, or from 1 when none to train on is 0.
/// @throws muster::Error(ErrorCode::usage): nothing of these, a file that is missing or damaged, a class
/// without pictures, a label to validate with that is no class, nothing to train on.
PictureSet open_picture_set(const PictureSetOptions& options);

}  // namespace muster::picture_sets
