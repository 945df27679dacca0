// SPDX-License-Identifier: Apache-2.0
// Whether Muster may be requested: by the administrator in plugstack.conf, or by the user on srun's command
// line or in the surrounding job. The answer may be yes in error, but never no. Allocates nothing;
// options.hpp and srun_command.hpp parse the exact meaning.
#pragma once

namespace muster::spank {

/// Whether a comma-separated list contains this word.
bool contains_word(const char* list, const char* word) noexcept;

/// The plugin's arguments in plugstack.conf. False if all of them are certainly valid and none makes Muster
/// place a step.
bool is_requested_by_config(int count, const char* const* arguments) noexcept;

/// Whether the arguments' default contains this word: `strict`, `auto`.
bool default_contains(const char* word, int count, const char* const* arguments) noexcept;

/// In srun, before it has parsed its options: whether --muster, or an abbreviation that srun accepts, is on
/// the command line or was given to the surrounding job.
bool may_be_requested_by_srun() noexcept;

/// Whether a file contains a text of at most 32 bytes. True also if the file cannot be read.
bool file_may_contain(const char* file, const char* text) noexcept;

}  // namespace muster::spank
