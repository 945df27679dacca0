// SPDX-License-Identifier: Apache-2.0
// Stands in for pyxis, which Debian does not have: as pyxis, it lets a task enter its container in task_init,
// between Slurm's own binding and the plugins listed after it. The container is another root folder in
// another mount namespace: the host's programs, no /sys, no /proc/driver, and with the argument `no-devices`
// none of the GPUs' device files. In plugstack.conf: required spank_container.so [no-devices]
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
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

namespace fs = std::filesystem;

void must(int result, const std::string& what) {
  if (result != 0) throw std::system_error(errno, std::generic_category(), what);
}

void attach(const char* source, const fs::path& target, const char* type, unsigned long flags) {
  fs::create_directories(target);
  must(mount(source, target.c_str(), type, flags, nullptr), "mount on " + target.string());
}

void hide(const fs::path& folder) { attach("hidden", folder, "tmpfs", 0); }

void enter_container(bool with_devices) {
  must(unshare(CLONE_NEWNS), "unshare");
  must(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "private mounts");
  const fs::path root = "/tmp/container";
  attach("container", root, "tmpfs", 0);
  for (const char* folder : {"/usr", "/etc", "/dev"})
    attach(folder, root.string() + folder, nullptr, MS_BIND | MS_REC);
  for (const char* link : {"bin", "sbin", "lib", "lib64"})
    if (fs::is_symlink(fs::path("/") / link)) fs::copy_symlink(fs::path("/") / link, root / link);
  attach("proc", root / "proc", "proc", 0);
  hide(root / "proc/driver");
  hide(root / "sys");
  fs::create_directories(root / "tmp");
  if (!with_devices) {
    hide(root / "dev");
    std::ofstream(root / "dev/null");
    must(mount("/dev/null", (root / "dev/null").c_str(), nullptr, MS_BIND, nullptr), "mount /dev/null");
  }
  std::ofstream(root / "in-container") << "yes\n";
  must(chroot(root.c_str()), "chroot");
  must(chdir("/"), "chdir");
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" int slurm_spank_task_init(spank_t, int count, char* arguments[]) {
  try {
    enter_container(count == 0 || std::strcmp(arguments[0], "no-devices") != 0);
    return 0;
  } catch (const std::exception& error) {
    slurm_error("container: %s", error.what());
    return -1;
  }
}
#pragma GCC visibility pop
