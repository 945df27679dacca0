// SPDX-License-Identifier: Apache-2.0
#include "step/topology_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "placement/topology/read.hpp"
#include "placement/topology/regular_file.hpp"
#include "placement/topology/topology_snapshot.hpp"

namespace muster::spank {

namespace {

constexpr const char* file_name = "topology";
// A node of 4096 CPUs and 64 domains needs 100 KB.
constexpr std::size_t longest_record = 4 << 20;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  bool valid() const { return number_ >= 0; }

 private:
  int number_;
};

/// Opens a folder that only its owner can change; -1 and errno otherwise.
int open_trusted_folder(const std::string& path, uid_t owner) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return -1;
  struct stat found {};
  if (fstat(folder, &found) == 0 && placement::only_owner_writes(found, owner)) return folder;
  close(folder);
  errno = EPERM;
  return -1;
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
  const Descriptor folder(open_trusted_folder(folder_, owner_));
  if (!folder.valid()) return {};
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  const Descriptor file(
      openat(folder.number(), file_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) return {};
  auto found = placement::read_regular_file(file.number(), longest_record);
  if (!found || !placement::only_owner_writes(found->status, owner_)) return {};
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
  const Descriptor folder(open_trusted_folder(folder_, owner_));
  if (!folder.valid()) refuse(folder_, errno == ENOENT ? why : errno);
  // slurmd's umask may hide new files from the users that must read them.
  if (made) fchmod(folder.number(), 0755);

  const std::string fresh = std::string(file_name) + "." + std::to_string(getpid());
  unlinkat(folder.number(), fresh.c_str(), 0);  // left by a killed process with the same number
  const Descriptor file(
      openat(folder.number(), fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file.valid()) refuse(folder_, errno);
  const bool written = placement::write_all(file.number(), record) && fchmod(file.number(), 0644) == 0 &&
                       fsync(file.number()) == 0 &&
                       renameat(folder.number(), fresh.c_str(), folder.number(), file_name) == 0;
  if (written) return;
  const int error = errno;
  unlinkat(folder.number(), fresh.c_str(), 0);
  refuse(folder_, error);
}

}  // namespace muster::spank
