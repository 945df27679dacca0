// SPDX-License-Identifier: Apache-2.0
// Whether anybody may ask Muster for something: the administrator in plugstack.conf, the user on srun's
// command line or in the job around it. Never no where somebody does. Allocates nothing; what is meant
// exactly is read by options.hpp and srun_command.hpp.
#pragma once

namespace muster::spank {

/// Whether a comma list has this word.
bool lists(const char* list, const char* word) noexcept;

/// The plugin's arguments in plugstack.conf: false where all are surely right and say of no step that it is
/// to be placed.
bool arguments_ask(int count, const char* const* arguments) noexcept;

/// Whether the arguments' default is `strict`.
bool default_is_strict(int count, const char* const* arguments) noexcept;

/// In srun, before it has read its options: whether --muster, or a beginning of it that srun takes for it,
/// stands on the command line or belongs to the job around it.
bool srun_may_ask() noexcept;

/// Whether a file contains a text of at most 32 bytes; also true when it cannot be read.
bool may_contain(const char* file, const char* text) noexcept;

}  // namespace muster::spank
