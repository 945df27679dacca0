// SPDX-License-Identifier: Apache-2.0
// A fake libcuda.so.1 and libnvidia-ml.so.1 that counts devices like the driver, over the lab's fake GPUs:
// those that this process may open, in PCI order or, for CUDA without CUDA_DEVICE_ORDER=PCI_BUS_ID, in
// another order; for CUDA only those that CUDA_VISIBLE_DEVICES names by index or UUID, up to the first
// invalid entry. It has no other function.
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 64
enum { success = 0, invalid_value = 1, no_device = 100, invalid_device = 101 };

struct gpu {
  char pci[16];
  char uuid[64];
};
static struct gpu visible[MOST];
static int visible_count;

static int read_gpu(const char* file, struct gpu* gpu, int* minor) {
  char line[256];
  FILE* open = fopen(file, "r");
  if (open == NULL) return 0;
  *minor = -1;
  while (fgets(line, sizeof line, open) != NULL) {
    sscanf(line, "GPU UUID: %63s", gpu->uuid);
    sscanf(line, "Bus Location: %15s", gpu->pci);
    sscanf(line, "Device Minor: %d", minor);
  }
  fclose(open);
  return *minor >= 0;
}

// The file has no driver: an open that the device cgroup allows fails with ENXIO, a denied one with EPERM.
static int may_open(int minor) {
  char file[32];
  snprintf(file, sizeof file, "/dev/nvidia%d", minor);
  const int device = open(file, O_RDWR | O_CLOEXEC);
  if (device >= 0) close(device);
  return device >= 0 || errno == ENXIO;
}

// In PCI order, as glob() sorts.
static int openable(struct gpu* gpus) {
  glob_t found;
  int count = 0;
  if (glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &found) != 0) return 0;
  for (size_t i = 0; i < found.gl_pathc && count < MOST; ++i) {
    int minor = -1;
    if (read_gpu(found.gl_pathv[i], &gpus[count], &minor) && may_open(minor)) ++count;
  }
  globfree(&found);
  return count;
}

// "Fastest first" is the reverse order.
static int in_cuda_order(struct gpu* gpus) {
  const int count = openable(gpus);
  const char* order = getenv("CUDA_DEVICE_ORDER");
  if (order == NULL || strcmp(order, "PCI_BUS_ID") != 0) {
    for (int i = 0; i < count / 2; ++i) {
      const struct gpu other = gpus[i];
      gpus[i] = gpus[count - 1 - i];
      gpus[count - 1 - i] = other;
    }
  }
  return count;
}

static int index_of(const char* entry, const struct gpu* gpus, int count) {
  char* end = NULL;
  const long number = strtol(entry, &end, 10);
  if (end != entry && *end == '\0') return number >= 0 && number < count ? (int)number : -1;
  for (int i = 0; i < count && strncmp(entry, "GPU-", 4) == 0; ++i)
    if (strncmp(gpus[i].uuid, entry, strlen(entry)) == 0) return i;
  return -1;
}

int cuInit(unsigned flags) {
  struct gpu gpus[MOST];
  const int count = in_cuda_order(gpus);
  const char* list = getenv("CUDA_VISIBLE_DEVICES");
  visible_count = 0;
  if (flags != 0) return invalid_value;
  if (list == NULL) {
    memcpy(visible, gpus, sizeof gpus);
    visible_count = count;
  } else {
    char* copy = strdup(list);
    for (char* entry = strtok(copy, ","); entry != NULL && visible_count < MOST; entry = strtok(NULL, ",")) {
      const int index = index_of(entry, gpus, count);
      if (index < 0) break;
      visible[visible_count++] = gpus[index];
    }
    free(copy);
  }
  return visible_count > 0 ? success : no_device;
}

int cuDeviceGetCount(int* count) {
  *count = visible_count;
  return success;
}

int cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal >= visible_count) return invalid_device;
  *device = ordinal;
  return success;
}

int cuDeviceGetPCIBusId(char* text, int size, int device) {
  if (device < 0 || device >= visible_count) return invalid_device;
  snprintf(text, (size_t)size, "%s", visible[device].pci);
  return success;
}

// The runtime queries the devices in use; here all visible ones are.
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  *flags = 0;
  *active = device >= 0 && device < visible_count;
  return success;
}

// NVML. A handle is the GPU's index and 1.
static struct gpu managed[MOST];
static int managed_count;

static int manage(void) {
  managed_count = openable(managed);
  return success;
}
int nvmlInit(void) { return manage(); }
int nvmlInit_v2(void) { return manage(); }
int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  return manage();
}
int nvmlShutdown(void) { return success; }
const char* nvmlErrorString(int error) { return error == success ? "Success" : "Invalid Argument"; }

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = (unsigned)managed_count;
  return success;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= (unsigned)managed_count) return 2;
  *device = (void*)(size_t)(index + 1);
  return success;
}

int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  snprintf(text, size, "%s", managed[(size_t)device - 1].uuid);
  return success;
}

int nvmlDeviceGetMemoryInfo(void* device, unsigned long long all_free_used[3]) {
  (void)device;
  all_free_used[0] = all_free_used[1] = 1ull << 36;
  all_free_used[2] = 0;
  return success;
}
