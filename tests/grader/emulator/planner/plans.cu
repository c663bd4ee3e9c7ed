// Host code whose plans the tests read. Of every entry the tests know the steps.
#include <cublas_v2.h>
#include <cuda_fp8.h>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

#define ENTRY extern "C" void

struct Shape {
    char rows;
    int columns;
    float* data;
};

struct __attribute__((packed)) Packed {
    char tag;
    const float* in;
    int n;
    float* out;
};

__constant__ float factors[4];
__device__ int unused_counter;

static __global__ void scale(const float* in, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * factors[1];
}
template <class T>
__global__ void copy(const T* in, T* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i];
}
__global__ void through(Shape shape, const float* in, int n) {
    const int i = threadIdx.x;
    if (i < n) shape.data[i] = in[i] + static_cast<float>(shape.rows * shape.columns);
}
__global__ void packed(Packed given) {
    const int i = threadIdx.x;
    if (i < given.n) given.out[i] = given.in[i] + static_cast<float>(given.tag);
}
__global__ void gathers(float** parts, float* out, int n) {
    const int i = threadIdx.x;
    if (i < n) out[i] = parts[i % 2][i];
}
namespace {
__global__ void hidden(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }
}  // namespace

float computed_before_anything = 3.0f * static_cast<float>(sizeof(Shape));
static void host_only(const char* what) { printf("%s\n", what); }

ENTRY constant_symbol(const float* in, float* out, int n) {
    const float values[4] = {1, 2, 3, 4};
    cudaMemcpyToSymbol(factors, values, sizeof values);
    scale<<<(n + 63) / 64, 64>>>(in, out, n);
}

ENTRY kept_between_calls(const float* in, float* out, int n) {
    static float* workspace;
    if (!workspace) cudaMalloc(&workspace, n * sizeof(float));
    copy<<<(n + 63) / 64, 64>>>(in, workspace, n);
    copy<float><<<(n + 63) / 64, 64>>>(workspace, out, n);
}

ENTRY structure(const float* in, float* out, int n) {
    Shape shape{2, 3, out};
    through<<<1, 256>>>(shape, in, n);
}

ENTRY packed_structure(const float* in, float* out, int n) {
    packed<<<1, 256>>>({1, in, n, out});
}

ENTRY pointer_array(const float* in, float* out, int n) {
    float *first, *second, **parts;
    cudaMalloc(&first, n * sizeof(float));
    cudaMalloc(&second, n * sizeof(float));
    cudaMalloc(&parts, 2 * sizeof(float*));
    cudaMemcpy(first, in, n * sizeof(float), cudaMemcpyDeviceToDevice);
    cudaMemcpy(second, in, n * sizeof(float), cudaMemcpyDeviceToDevice);
    float* both[2] = {first, second};
    cudaMemcpy(parts, both, sizeof both, cudaMemcpyHostToDevice);
    gathers<<<1, 256>>>(parts, out, n);
    for (void* each : {(void*)first, (void*)second, (void*)parts}) cudaFree(each);
}

ENTRY unnamed_namespace(const float* in, float* out) { hidden<<<1, 256>>>(in, out); }

ENTRY streams(const float* in, float* out, int n) {
    float* half;
    cudaMallocAsync(&half, n * sizeof(float), 0);
    cudaMemsetAsync(half, 0, n * sizeof(float));
    cudaStream_t stream;
    cudaEvent_t event;
    cudaStreamCreate(&stream);
    cudaEventCreate(&event);
    copy<<<4, 64, 0, stream>>>(in, half, n);
    cudaEventRecord(event, stream);
    cudaStreamWaitEvent(0, event, 0);
    copy<<<4, 64>>>((const float*)half, out, n);
    cudaDeviceSynchronize();
    cudaFree(half);
    cudaEventDestroy(event);
    cudaStreamDestroy(stream);
}

ENTRY waits_of_the_host(const float* in, float* out, int n) {
    cudaStream_t stream;
    cudaEvent_t event;
    cudaStreamCreate(&stream);
    cudaEventCreate(&event);
    copy<<<4, 64, 0, stream>>>(in, out, n);
    cudaStreamSynchronize(stream);
    copy<<<4, 64, 0, cudaStreamPerThread>>>(in, out, n);
    cudaEventRecord(event, cudaStreamPerThread);
    cudaEventSynchronize(event);
    cudaStreamSynchronize(0);
    cudaEventDestroy(event);
    cudaStreamDestroy(stream);
}

ENTRY looks_at_results(const float* in, float* out, int n) {
    copy<<<4, 64>>>(in, out, n);
    std::vector<float> values(n);
    const cudaError_t error =
        cudaMemcpy(values.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost);
    host_only(cudaGetErrorName(error));
}

ENTRY times_itself(const float* in, float* out, int n) {
    cudaEvent_t first, last;
    cudaEventCreate(&first);
    cudaEventCreate(&last);
    cudaEventRecord(first);
    copy<<<4, 64>>>(in, out, n);
    cudaEventRecord(last);
    cudaEventSynchronize(last);
    float milliseconds = -1;
    cudaEventElapsedTime(&milliseconds, first, last);
    printf("%g ms\n", milliseconds);
}

ENTRY too_many_threads(const float* in, float* out, int n) {
    copy<<<1, 2048>>>(in, out, n);
    if (cudaGetLastError() != cudaSuccess) copy<<<4, 64>>>(in, out, n);
}

ENTRY number_of_blocks_wraps(const float* in, float* out, int n) {
    const int elements = n * (12 << 20);  // n is 256, and the product beyond an int
    scale<<<elements / 256, 256>>>(in, out, n);
    cudaGetLastError();
}

__global__ void __launch_bounds__(64) few_threads(const float* in, float* out, int n) {
    if (threadIdx.x < n) out[threadIdx.x] = in[threadIdx.x];
}

ENTRY takes_the_error(const float* in, float* out, int n) {
    few_threads<<<4, 128>>>(in, out, n);
    cudaGetLastError();
}

ENTRY leaks_every_time(const float* in, float* out, int n) {
    float* lost;
    cudaMalloc(&lost, 128);
    copy<<<4, 64>>>(in, out, n);
}

ENTRY endless_copies(const float* in, float* out, int n) {
    for (;;) cudaMemcpy(out, in, n * sizeof(float), cudaMemcpyDeviceToDevice);
}

ENTRY uploads_everything() {
    float* device;
    std::vector<float> values(1 << 19);
    cudaMalloc(&device, values.size() * sizeof(float));
    cudaMemcpy(device, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaFree(device);
}

__device__ int calls_so_far;
__global__ void counts(float* out) {
    if (threadIdx.x == 0) ++calls_so_far;
    __syncthreads();
    out[threadIdx.x] = static_cast<float>(calls_so_far);
}
ENTRY counter(float* out) { counts<<<1, 256>>>(out); }

ENTRY left_behind_once(const float* in, float* out, int n) {
    static bool begun;
    float* lost;
    if (!begun) cudaMalloc(&lost, 64);
    begun = true;
    copy<<<4, 64>>>(in, out, n);
}

__global__ void scale_by(const float* in, const float* by, float* out) {
    out[threadIdx.x] = in[threadIdx.x] * by[1];
}

ENTRY managed_memory(const float* in, float* out, int n) {
    float* by;
    cudaMallocManaged(&by, 4096);
    for (int i = 0; i < 4; ++i) by[i] = 2;
    scale_by<<<1, n>>>(in, by, out);
    cudaDeviceSynchronize();
    if (by[1] == 2) printf("as the host left it\n");
    cudaFree(by);
}

ENTRY cooperative(const float* in, float* out, int n) {
    void* arguments[] = {&in, &out, &n};
    cudaLaunchCooperativeKernel((void*)copy<float>, 4, 64, arguments);
}

ENTRY too_large_to_cooperate(const float* in, float* out, int n) {
    void* arguments[] = {&in, &out, &n};
    if (cudaLaunchCooperativeKernel((void*)copy<float>, 1 << 20, 64, arguments) ==
        cudaErrorCooperativeLaunchTooLarge) {
        cudaGetLastError();
        copy<<<4, 64>>>(in, out, n);
    }
}
