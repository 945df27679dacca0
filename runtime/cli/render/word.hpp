// SPDX-License-Identifier: Apache-2.0
// Texts of a description after ${NAME} was replaced, and their quotation in each kind of output.
#pragma once

#include <string>
#include <vector>

#include "render/settings.hpp"

namespace muster::render {

/// Text, or a variable that the script reads when it starts.
struct Piece {
  std::string text;  ///< the text, or the name of the variable
  bool is_variable = false;
  std::string fallback;  ///< the value of a variable that is not set; empty: it must be set
};

using Word = std::vector<Piece>;

/// Replaces each ${NAME} by the value of variables.NAME or of the key NAME; ${NAME} of [script_variables]
/// becomes a variable. $${ stands for ${.
/// @throws DescriptionError if NAME has no value.
Word expand(const std::string& text, const Settings& settings, const std::string& origin);

/// The text of a word without variables of the script.
/// @throws DescriptionError if it has one.
std::string plain_text(const Word& word, const std::string& origin);

/// With the fallbacks of its variables, for output that is no script.
/// @throws DescriptionError if a variable has none.
std::string fallback_text(const Word& word, const std::string& origin);

/// One word of a shell command.
std::string shell_quote(const Word& word);
std::string shell_quote(const std::string& text);

/// For a place between double quotation marks.
std::string shell_inner(const Word& word);

/// A YAML scalar, also inside [] and {}.
std::string yaml_quote(const std::string& text);

/// A YAML scalar in which Kubernetes expands no $(NAME): for commands and variables of a container.
std::string container_quote(const std::string& text);

bool is_variable_name(const std::string& name);

}  // namespace muster::render
