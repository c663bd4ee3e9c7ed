// Host code whose plans the tests read, for what only a GPU does and what only nvcc tells.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include <stdexcept>

#define ENTRY extern "C" void

struct Gappy {
    char kind;
    float* data;
    short count;
};
struct Large {
    float* data;
    char filling[6000];
    int last;
};

__device__ float table[8];
__managed__ int shared_with_host;
namespace {
__constant__ float hidden_factors[2];
__global__ void hidden(Gappy given, float* out) { out[0] = hidden_factors[given.count]; }
}  // namespace
template <class T, int N>
__global__ void __launch_bounds__(128) bounded(const T* in, T* out) {
    __shared__ T tile[N];
    tile[threadIdx.x % N] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[0];
}
static __global__ void plain(const float* in, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i];
}
__global__ void takes_large(int first, Large large, char last) {
    large.data[0] = static_cast<float>(first + large.last + last);
}
__global__ void dynamic(float* out) {
    extern __shared__ float space[];
    space[threadIdx.x] = 1;
    out[threadIdx.x] = space[threadIdx.x] + static_cast<float>(shared_with_host);
}
__global__ void pair(float* a, float* b) { a[0] = b[0]; }

static int found_at_the_start = [] {
    int count = 0;
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0);
    return count;
}();

ENTRY names(const float* in, float* out, int n) {
    const float factors[2] = {1, 2};
    cudaMemcpyToSymbol(hidden_factors, factors, sizeof factors);
    Gappy given;
    memset(&given, 0x55, sizeof given);
    given = Gappy{7, out, 1};
    hidden<<<1, 1>>>(given, out);
    bounded<float, 16><<<1, 128>>>(in, out);
    bounded<int, 4><<<1, 64>>>((const int*)in, (int*)out);
    plain<<<4, 64>>>(in, out, n);
}

ENTRY gaps(float* out) {
    volatile char noise[256];
    for (int i = 0; i < 256; ++i) noise[i] = 0x55;
    hidden<<<1, 1>>>({7, out, 1}, out);
}

ENTRY large_parameter(float* out) {
    Large large{};
    large.data = out;
    large.last = 4;
    takes_large<<<1, 1>>>(3, large, 5);
}

ENTRY cluster(const float* in, float* out, int n) {
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {2, 1, 1};
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t shape = {};
    shape.gridDim = 4;
    shape.blockDim = 64;
    shape.attrs = attributes;
    shape.numAttrs = 2;
    if (cudaLaunchKernelEx(&shape, plain, in, out, n)) printf("refused\n");
    attributes[0].val.clusterDim = {3, 1, 1};
    if (cudaLaunchKernelEx(&shape, plain, in, out, n)) printf("refused, as it should be\n");
    cudaGetLastError();
}

ENTRY by_calls(const float* in, float* out, int n) {
    void* arguments[] = {&in, &out, &n};
    cudaLaunchKernel((const void*)plain, dim3(4), dim3(64), arguments, 0, 0);
    cudaLaunchCooperativeKernel((const void*)plain, dim3(4), dim3(64), arguments, 0, 0);
}

static float* launches_itself(const float* in, float* out) {
    plain<<<2, 32>>>(in, out, 1);
    return out;
}
ENTRY nested(const float* in, float* out) { pair<<<1, 8>>>(launches_itself(in, out), out); }

ENTRY asks(float* out) {
    cudaFuncAttributes of;
    cudaFuncGetAttributes(&of, bounded<float, 16>);
    printf("%d %zu %d %d\n", of.maxThreadsPerBlock, of.sharedSizeBytes, of.binaryVersion,
           of.maxDynamicSharedSizeBytes);
    printf("registers %d\n", of.numRegs);
    cudaDeviceProp device;
    cudaGetDeviceProperties(&device, 0);
    printf("%s %d.%d %d %zu\n", device.name, device.major, device.minor,
           device.multiProcessorCount, device.sharedMemPerBlockOptin);
    int blocks = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, dynamic, 128, 100 * 1024);
    printf("%d blocks, %d\n", blocks, found_at_the_start);
    int least = 0, size = 0;
    cudaOccupancyMaxPotentialBlockSize(&least, &size, bounded<float, 16>);
    printf("%d threads\n", size);
    void* address = nullptr;
    size_t bytes = 0;
    cudaGetSymbolAddress(&address, table);
    cudaGetSymbolSize(&bytes, table);
    cudaMemset(address, 0, bytes);
    cudaPointerAttributes pointed;
    cudaPointerGetAttributes(&pointed, out);
    printf("%d %d\n", pointed.type == cudaMemoryTypeDevice, pointed.devicePointer == out);
}

ENTRY shared_memory(float* out) {
    dynamic<<<1, 64, 100 * 1024>>>(out);
    cudaGetLastError();
    cudaFuncSetAttribute(dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024);
    dynamic<<<1, 64, 100 * 1024>>>(out);
}

ENTRY too_many_threads(const float* in, float* out) {
    bounded<float, 16><<<1, 256>>>(in, out);
    cudaGetLastError();
}

ENTRY reads_the_device(const float* in, float* out) {
    volatile float value = in[3];
    printf("%g\n", value);
    plain<<<1, 1>>>(in, out, 1);
}

ENTRY throws_something() { throw std::runtime_error("no"); }

ENTRY reads_managed_variable(float* out) {
    if (shared_with_host == 3) cudaMemset(out, 0, 4);
}

extern "C" cudaError_t cudaMemset_ptds(void*, int, size_t);
ENTRY per_thread(float* out) { cudaMemset_ptds(out, 0, 16); }
