// SPDX-License-Identifier: Apache-2.0
#include "step/topology_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "file/atomic_file.hpp"
#include "file/descriptor.hpp"
#include "file/regular_file.hpp"
#include "placement/topology/live/topology_snapshot.hpp"
#include "placement/topology/read.hpp"

namespace muster::spank {

namespace {

constexpr const char* file_name = "topology";
// A node of 4096 CPUs and 64 domains needs 100 KB.
constexpr std::size_t longest_record = 4 << 20;

/// Opens a folder that only its owner can change; none and errno otherwise.
Descriptor open_trusted_folder(const std::string& path, uid_t owner) {
  Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat found {};
  if (!folder.valid() || (fstat(folder.number(), &found) == 0 && only_owner_writes(found, owner)))
    return folder;
  folder.reset();
  errno = EPERM;
  return folder;
}

[[noreturn]] void refuse(const std::string& path, int error) {
  const std::string why = error == EPERM ? "it is not root's alone to write" : std::strerror(error);
  throw std::runtime_error("the topology cannot be kept in " + path + " (" + why +
                           "), so every step reads it anew; name a folder of root's with cache=DIR in "
                           "plugstack.conf, or switch it off with cache=off");
}

}  // namespace

TopologyCache::TopologyCache(std::string folder, uid_t owner) : folder_(std::move(folder)), owner_(owner) {}

std::string TopologyCache::load() const {
  const Descriptor folder = open_trusted_folder(folder_, owner_);
  if (!folder.valid()) return {};
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  const Descriptor file(
      openat(folder.number(), file_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  auto found = read_regular_file(file.number(), longest_record);
  if (!found || !only_owner_writes(found->status, owner_)) return {};
  const bool complete = found->text.size() == static_cast<std::size_t>(found->status.st_size);
  return complete ? std::move(found->text) : std::string();
}

placement::Node TopologyCache::read(const std::string& root) {
  is_dirty_ = false;
  if (folder_.empty()) return placement::read_live(root);
  const auto identity = placement::read_identity(root);
  auto node = placement::read_snapshot(load(), identity);
  if (!node) {
    node = placement::read_static(root);
    is_dirty_ = !placement::write_snapshot(*node, identity).empty();
  }
  placement::read_dynamic(*node, root);
  return std::move(*node);
}

void TopologyCache::renew(const std::string& root) const {
  if (folder_.empty()) return;
  const auto identity = placement::read_identity(root);
  if (placement::read_snapshot(load(), identity)) return;  // another step was faster
  const std::string record = placement::write_snapshot(placement::read_static(root), identity);
  if (!record.empty()) store(record);
}

void TopologyCache::store(const std::string& record) const {
  const bool made = mkdir(folder_.c_str(), 0755) == 0;
  const int why = errno;
  const Descriptor folder = open_trusted_folder(folder_, owner_);
  if (!folder.valid()) refuse(folder_, errno == ENOENT ? why : errno);
  // slurmd's umask may hide new files from the users that must read them.
  if (made) fchmod(folder.number(), 0755);

  AtomicFile file(file_name, std::string(file_name) + "." + std::to_string(getpid()),
                  {.folder = folder.number(), .mode = 0644, .durable = true});
  file.write(record);
  if (!file.commit()) refuse(folder_, file.error());
}

}  // namespace muster::spank
