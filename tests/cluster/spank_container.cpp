// SPDX-License-Identifier: Apache-2.0
// A fake pyxis, which Debian does not have. Like pyxis it has --container-image,
// --container-mounts=SRC[:DST],… and --container-workdir, and with an image lets a task enter its container
// in task_init, between Slurm's own binding and the plugins listed after it. The container is another root
// folder in another mount namespace. An image that is a path is an unpacked image's root folder, as enroot
// starts it: read-only, with the host's /dev, /sys, /etc/hosts and /etc/resolv.conf and an empty /tmp. Any
// other image is the host's programs, /in-container with the image's name, no /sys, no /proc/driver, and with
// the argument `no-devices` no GPU device files. In plugstack.conf: required spank_container.so [no-devices]
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#pragma GCC visibility push(default)
extern "C" {
#include <slurm/spank.h>
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
SPANK_PLUGIN(container, 1)
}
#pragma GCC visibility pop

namespace {

/// Indexed by the numbers of the options' callbacks.
enum { image, mounts, workdir, option_count };
std::string asked[option_count];
// Slurm requires writable texts.
char image_name[] = "container-image", image_argument[] = "NAME", image_usage[] = "the container's image",
     mounts_name[] = "container-mounts", mounts_argument[] = "SRC[:DST],...",
     mounts_usage[] = "folders of the host in the container", workdir_name[] = "container-workdir",
     workdir_argument[] = "PATH", workdir_usage[] = "where tasks start";

int take_option(int which, const char* value, int) {
  asked[which] = value;
  return 0;
}

namespace fs = std::filesystem;

void must(int result, const std::string& what) {
  if (result != 0) throw std::system_error(errno, std::generic_category(), what);
}

void attach(const char* source, const fs::path& target, const char* type, unsigned long flags) {
  fs::create_directories(target);
  must(mount(source, target.c_str(), type, flags, nullptr), "mount on " + target.string());
}

/// enroot creates a file to mount on too (x-create=file).
void attach_file(const char* source, const fs::path& target) {
  std::ofstream(target, std::ios::app);
  must(mount(source, target.c_str(), nullptr, MS_BIND, nullptr), "mount on " + target.string());
}

void hide(const fs::path& folder) { attach("hidden", folder, "tmpfs", 0); }

const fs::path root = "/tmp/container";

void make_unpacked_root() {
  attach(asked[image].c_str(), root, nullptr, MS_BIND);
  for (const char* folder : {"/dev", "/sys"})
    attach(folder, root.string() + folder, nullptr, MS_BIND | MS_REC);
  for (const char* file : {"/etc/hosts", "/etc/resolv.conf"}) attach_file(file, root.string() + file);
  attach("tmp", root / "tmp", "tmpfs", 0);
}

void make_read_only() {
  must(mount(nullptr, root.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), "read-only root");
}

void make_root_of_host(bool with_devices) {
  attach("container", root, "tmpfs", 0);
  for (const char* folder : {"/usr", "/etc", "/dev"})
    attach(folder, root.string() + folder, nullptr, MS_BIND | MS_REC);
  for (const char* link : {"bin", "sbin", "lib", "lib64"})
    if (fs::is_symlink(fs::path("/") / link)) fs::copy_symlink(fs::path("/") / link, root / link);
  hide(root / "sys");
  fs::create_directories(root / "tmp");
  if (!with_devices) {
    hide(root / "dev");
    attach_file("/dev/null", root / "dev/null");
  }
  std::ofstream(root / "in-container") << asked[image] << '\n';
}

void enter_container(bool with_devices) {
  must(unshare(CLONE_NEWNS), "unshare");
  must(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "private mounts");
  const bool unpacked = asked[image].front() == '/';
  if (unpacked)
    make_unpacked_root();
  else
    make_root_of_host(with_devices);
  attach("proc", root / "proc", "proc", 0);
  if (!unpacked) hide(root / "proc/driver");
  std::istringstream all(asked[mounts]);
  for (std::string entry; std::getline(all, entry, ',');) {
    const std::string source = entry.substr(0, entry.find(':')), target = entry.substr(entry.find(':') + 1);
    attach(source.c_str(), root.string() + target, nullptr, MS_BIND | MS_REC);
  }
  if (unpacked) make_read_only();
  must(chroot(root.c_str()), "chroot");
  must(chdir(asked[workdir].empty() ? "/" : asked[workdir].c_str()), "the container's working folder");
}

}  // namespace

#pragma GCC visibility push(default)
spank_option spank_options[] = {{image_name, image_argument, image_usage, 1, image, take_option},
                                {mounts_name, mounts_argument, mounts_usage, 1, mounts, take_option},
                                {workdir_name, workdir_argument, workdir_usage, 1, workdir, take_option},
                                SPANK_OPTIONS_TABLE_END};

extern "C" int slurm_spank_task_init(spank_t, int count, char* arguments[]) {
  if (asked[image].empty()) return 0;
  try {
    enter_container(count == 0 || std::strcmp(arguments[0], "no-devices") != 0);
    return 0;
  } catch (const std::exception& error) {
    slurm_error("container: %s", error.what());
    return -1;
  }
}
#pragma GCC visibility pop
