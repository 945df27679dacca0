// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "file/descriptor.hpp"

namespace muster {

/// Opens a file of this process's user for writing, and creates it if it does not exist (0666 less the
/// umask). Refuses symbolic links, other users' files, and what is not a regular file: in a folder where
/// others can write, these would lead to a file that the user did not choose, or block forever.
/// `flags`: of open(2), such as O_RDWR | O_APPEND.
/// Invalid, with the reason in `why`, if it is refused or cannot be opened.
Descriptor open_user_file(const std::string& path, int flags, std::string& why);

}  // namespace muster
