/* A CUDA driver without a device, for tests of what the host calls, and in which state. Device memory is host memory,
   copies run at once, and kernels do nothing. Calls that need a current context fail without one. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INVALID_CONTEXT 201
#define DESTROYED 709
#define INVALID_VALUE 1
#define NOT_SUPPORTED 801
#define NEEDS_CONTEXT if (!current) return INVALID_CONTEXT

typedef unsigned long long Address;

static __thread void *current;
static int released;

static int has_pools(void) { return getenv("STUB_WITHOUT_POOLS") == NULL; }

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuGetErrorName(int code, const char **name) { *name = "CUDA_ERROR_OF_THE_STUB"; return 0; }
int cuGetErrorString(int code, const char **text) { *text = "an error of the stub"; return 0; }

int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int len, int device) { snprintf(name, len, "stub"); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)1 << 30; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 75: *value = 9; break;            /* compute capability, major */
    case 76: *value = 0; break;            /* and minor */
    case 102: *value = 0; break;           /* virtual memory management */
    case 115: *value = has_pools(); break; /* memory pools */
    default: *value = 1024;
    }
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &released; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { released = 1; return 0; }
int cuCtxSetCurrent(void *context) { current = context; return 0; }
int cuCtxGetCurrent(void **context) { *context = current; return 0; }
int cuCtxSynchronize(void) { NEEDS_CONTEXT; return 0; }

int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
    NEEDS_CONTEXT;
    *stream = malloc(1);
    return 0;
}
int cuStreamDestroy_v2(void *stream) { NEEDS_CONTEXT; free(stream); return 0; }
int cuStreamSynchronize(void *stream) { NEEDS_CONTEXT; return 0; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { NEEDS_CONTEXT; return 0; }
int cuEventCreate(void **event, unsigned flags) { NEEDS_CONTEXT; *event = malloc(1); return 0; }
int cuEventDestroy_v2(void *event) { NEEDS_CONTEXT; free(event); return 0; }
int cuEventRecord(void *event, void *stream) { NEEDS_CONTEXT; return 0; }
int cuEventSynchronize(void *event) { NEEDS_CONTEXT; return 0; }

int cuMemGetInfo_v2(size_t *free, size_t *total) {
    NEEDS_CONTEXT;
    *free = *total = (size_t)1 << 30;
    return 0;
}
int cuMemAlloc_v2(Address *address, size_t bytes) { NEEDS_CONTEXT; *address = (Address)malloc(bytes); return 0; }
int cuMemFree_v2(Address address) { NEEDS_CONTEXT; free((void *)address); return 0; }
int cuMemAllocAsync(Address *address, size_t bytes, void *stream) {
    return has_pools() ? cuMemAlloc_v2(address, bytes) : NOT_SUPPORTED;
}
int cuMemFreeAsync(Address address, void *stream) { return has_pools() ? cuMemFree_v2(address) : NOT_SUPPORTED; }
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) { NEEDS_CONTEXT; *memory = malloc(bytes); return 0; }
int cuMemFreeHost(void *memory) { NEEDS_CONTEXT; free(memory); return 0; }
int cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, void *stream) {
    NEEDS_CONTEXT;
    memcpy((void *)to, from, bytes);
    return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, void *stream) {
    NEEDS_CONTEXT;
    memcpy(to, (void *)from, bytes);
    return 0;
}

int cuDeviceGetDefaultMemPool(void **pool, int device) { *pool = &released; return has_pools() ? 0 : NOT_SUPPORTED; }
int cuMemPoolTrimTo(void *pool, size_t bytes) { return 0; }
int cuMemPoolSetAttribute(void *pool, int attribute, void *value) { return 0; }
int cuMemPoolGetAttribute(void *pool, int attribute, void *value) { *(Address *)value = 0; return 0; }

int cuModuleLoadDataEx(void **module, const void *image, unsigned options, void *names, void *values) {
    NEEDS_CONTEXT;
    *module = malloc(1);
    return 0;
}
int cuLinkCreate_v2(unsigned options, void *names, void *values, void **link) {
    NEEDS_CONTEXT;
    *link = malloc(1);
    return 0;
}
int cuLinkAddData_v2(void *link, int type, const char *data, size_t bytes, const char *name, unsigned options,
                     void *names, void *values) {
    NEEDS_CONTEXT;
    return bytes > 0 && data[bytes - 1] == 0 ? 0 : INVALID_VALUE;
}
int cuLinkComplete(void *link, void **code, size_t *bytes) {
    NEEDS_CONTEXT;
    *code = link;
    *bytes = 1;
    return 0;
}
int cuLinkDestroy(void *link) { NEEDS_CONTEXT; free(link); return 0; }
int cuModuleUnload(void *module) {
    NEEDS_CONTEXT;
    free(module);
    return released ? DESTROYED : 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name) { NEEDS_CONTEXT; *function = module; return 0; }
int cuFuncGetAttribute(int *value, int attribute, void *function) { *value = attribute == 0 ? 1024 : 0; return 0; }
int cuFuncSetAttribute(void *function, int attribute, int value) { return 0; }
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra) {
    NEEDS_CONTEXT;
    return 0;
}
