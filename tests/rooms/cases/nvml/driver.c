/* As much of libnvidia-ml as is asked. COUNT, INIT, OLD, MIG are given when it is compiled; what changes while a test
   runs is set by the functions at the end. */
#include <string.h>
#include <unistd.h>
typedef struct { unsigned gpu, memory; } Rates;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned pid; unsigned long long used; unsigned a, b; } Running;
enum { LOST = 15, NOT_SUPPORTED = 3, SHORT = 7, NO_PERMISSION = 4 };
static volatile int lost[1000], returned, generation, hang;
static volatile unsigned pid_of_job = 7, power_mw = 123456;
static volatile unsigned long long energy_mj = 5000;
static long number(void *handle) { return (long)handle % 1000; }
static int trouble(void *handle) {
  while (hang) usleep(1000);
  /* A handle from before a GPU was lost stays useless when it is back. */
  return lost[number(handle) - 1] || (returned == number(handle) && (long)handle / 1000 != generation) ? LOST : 0;
}
int nvmlInitWithFlags(unsigned flags) { return INIT; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = COUNT; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
  *handle = (void *)(long)(index + 1 + 1000 * generation);
  return lost[index] ? LOST : 0;
}
int nvmlDeviceGetUtilizationRates(void *handle, Rates *rates) {
#ifdef MIG
  return NOT_SUPPORTED;
#endif
  rates->gpu = 40 + number(handle);
  return trouble(handle);
}
#ifndef OLD
int nvmlDeviceGetMemoryInfo(void *handle, Memory *memory) {
  memory->used = 1ull << 33; memory->total = 1ull << 35;
  return trouble(handle);
}
int nvmlDeviceGetPowerUsage(void *handle, unsigned *mw) {
  *mw = power_mw;
  return number(handle) == 2 ? NOT_SUPPORTED : trouble(handle);
}
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *c) { *c = 61; return trouble(handle); }
#ifndef COUNTLESS
int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *mj) {
  *mj = energy_mj;
  return number(handle) == 2 ? NOT_SUPPORTED : trouble(handle);
}
#endif
static int list(unsigned *count, Running *found, unsigned pid) {
  if (*count < 1 || !found) { *count = 1; return SHORT; }
  memset(found, 0, sizeof *found); found->pid = pid; found->used = pid * 1000ull; *count = 1; return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, Running *found) {
#ifdef MIG
  if (number(handle) < 100) return NO_PERMISSION;
#endif
  return trouble(handle) ? LOST : list(count, found, pid_of_job);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned *count, Running *found) {
#ifdef MIG
  return NOT_SUPPORTED;
#endif
  return trouble(handle) ? LOST : number(handle) == 2 ? 999 : list(count, found, 8);
}
#ifdef MIG
int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *next) { *now = *next = 1; return 0; }
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) { *count = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **found) {
  *found = (void *)(long)(100 + index);
  return index < 2 ? 0 : 6;
}
#endif
#endif
void lose(int index) { lost[index] = 1; returned = index + 1; }
void bring_back(int index) { generation++; lost[index] = 0; }
void hang_up(int on) { hang = on; }
void set_job(unsigned pid) { pid_of_job = pid; }
void set_energy(unsigned long long mj) { energy_mj = mj; }
