// SPDX-License-Identifier: Apache-2.0
#include "file/atomic_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "file/write_all.hpp"

namespace muster {

AtomicFile::AtomicFile(std::string path, std::string temporary, const AtomicFileOptions& options)
    : path_(std::move(path)), temporary_(std::move(temporary)), options_(options) {
  unlinkat(options_.folder, temporary_.c_str(), 0);
  file_ =
      Descriptor(openat(options_.folder, temporary_.c_str(),
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, options_.mode ? 0600 : 0666));
  temporary_exists_ = check(file_.valid(), Step::create);
}

AtomicFile::~AtomicFile() {
  if (temporary_exists_) unlinkat(options_.folder, temporary_.c_str(), 0);
}

bool AtomicFile::check(bool good, Step step) {
  if (good || error_ != 0) return good;
  error_ = errno;
  failed_step_ = step;
  return false;
}

void AtomicFile::write(std::string_view bytes) {
  if (error_ == 0) check(write_all(file_.number(), bytes), Step::write);
}

bool AtomicFile::commit() {
  if (error_ != 0) return false;
  const int folder = options_.folder;
  const bool complete = (!options_.mode || fchmod(file_.number(), *options_.mode) == 0) &&
                        (!options_.durable || fsync(file_.number()) == 0);
  if (!check(complete, Step::write) || !check(file_.reset(), Step::write) ||
      !check(renameat(folder, temporary_.c_str(), folder, path_.c_str()) == 0, Step::rename))
    return false;
  temporary_exists_ = false;
  return !options_.durable || check(sync_parent_folder(path_, folder), Step::sync_folder);
}

std::string parent_folder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

bool sync_parent_folder(const std::string& path, int folder) {
  const Descriptor parent(openat(folder, parent_folder(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems cannot sync a folder and return EINVAL; the rename is then as durable as they
  // make it.
  return parent.valid() && (fsync(parent.number()) == 0 || errno == EINVAL);
}

}  // namespace muster
