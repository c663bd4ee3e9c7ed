// Right code that a careless detector would accuse. No entry may give a finding.
#include <cuda_runtime.h>
#include <math_constants.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#define ENTRY extern "C" void

__global__ void padded_tile(float* out, const float* in) {
    __shared__ float tile[16][17];
    tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * 16 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 16 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
ENTRY padded_tiles(const float* in, float* out) { padded_tile<<<1, dim3(16, 16)>>>(out, in); }

__global__ void next_in_place(float* out, const float* in) {
    int x = threadIdx.x;
    out[x] = 0.5f * __ldg(&out[x]) + __ldg(&in[x]) + __ldg((const float4*)in).w;
}
__global__ void fills(float* out) { out[threadIdx.x] = 1; }
ENTRY read_only_loads(const float* in, float* out) {
    fills<<<1, 32>>>(out);
    for (int i = 0; i < 2; i++) next_in_place<<<1, 32>>>(out, in);
}

__global__ void adds_active_lanes(float* out, float* sums, const float* in) {
    int x = threadIdx.x;
    if (x >= 60) return;
    float value = in[x];
    if (value > 20) value = x % 2 ? 20 + value : -value;
    unsigned whole = __activemask();  // no access in a branch before: those that haven't returned
    for (int k = 16; k; k /= 2) value += __shfl_xor_sync(whole, value, k & (x < 32 ? 16 : 3));
    for (int i = 0; i < 3; i++) {
        if ((x + i) % 3) {
            unsigned mask = __activemask();
            int leader = __ffs(mask) - 1;
            if (x % 32 == leader) atomicAdd(sums, (float)__popc(mask));
            value += __shfl_sync(mask, value, leader);
        }
    }
    __syncwarp(x < 32 ? 0xffffffff : 0x0fffffff);
    out[x] = value + __popc(__activemask());
}
ENTRY active_lanes(const float* in, float* out) {
    float* sums;
    cudaMalloc(&sums, 4);
    cudaMemset(sums, 0, 4);
    adds_active_lanes<<<1, 64>>>(out, sums, in);
    cudaFree(sums);
}

// A GPU takes the nearest int, as a CPU does below the least one.
__global__ void shifted_and_converted(float* out, const float* in) {
    int x = threadIdx.x;
    unsigned low = (1u << x) - 1, high = 0xffffffffu >> (31 - x);
    int whole = (int)(in[x] * 3.0f - 2147483648.0f), least = (int)-CUDART_INF_F;
    out[x] = (float)((low ^ high) + (whole == least) + (0 << (32 + x)) + (unsigned)(x + 0.5f));
}
ENTRY shifts_and_conversions(const float* in, float* out) {
    shifted_and_converted<<<1, 32>>>(out, in);
}

__global__ void warp_synchronous(float* out, const float* in) {
    __shared__ float tile[64];
    int x = threadIdx.x;
    tile[x] = in[x];
    tile[x + 32] = in[x + 32];
    __syncwarp();
    for (int k = 32; k > 0; k /= 2) {
        float v = tile[x] + tile[x + k];
        __syncwarp();
        tile[x] = v;
        __syncwarp();
    }
    if (x == 0) out[0] = tile[0];
}
ENTRY warp_reduction(const float* in, float* out) { warp_synchronous<<<1, 32>>>(out, in); }

// One barrier for all threads: in a function, in a template, and in a loop's condition.
__device__ void meet() { __syncthreads(); }
template <int steps>
__device__ int meet_often(int x) {
    int met = 0;
    for (int i = 0; i < steps; i++) met += __syncthreads_count(x > i);
    return met;
}
__global__ void meetings(float* out, const float* in) {
    __shared__ float tile[64];
    int x = threadIdx.x, rounds = 0;
    if (x < 40) tile[x] = in[x];
    meet();
    while (__syncthreads_or(x > 4 * rounds)) rounds++;
    rounds += meet_often<2>(x) + meet_often<3>(x);
    if (x < 40) out[x] = tile[39 - x] + rounds;
    (__syncthreads)();
}
ENTRY meets_in_functions(const float* in, float* out) { meetings<<<1, 64>>>(out, in); }

__global__ void half_warps(float* out, const float* in) {
    __shared__ float tile[32];
    int x = threadIdx.x;
    unsigned half = x < 16 ? 0x0000ffff : 0xffff0000;
    for (int i = 0; i < 3; i++) {
        tile[x] = in[x] + i;
        __syncwarp(half);
        out[x] = tile[x ^ 8];
        __syncwarp(half);
    }
    __syncwarp();
    out[x] += tile[31 - x];
}
ENTRY half_warp_groups(const float* in, float* out) { half_warps<<<1, 32>>>(out, in); }

__global__ void atomics(int* histogram, const float* in) {
    __shared__ int counts[8];
    if (threadIdx.x < 8) counts[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&counts[threadIdx.x % 8], 1);
    __syncthreads();
    if (threadIdx.x < 8) atomicAdd(&histogram[threadIdx.x], counts[threadIdx.x]);
}
ENTRY histogram(const float* in) {
    int* counts;
    cudaMalloc(&counts, 8 * sizeof(int));
    cudaMemset(counts, 0, 8 * sizeof(int));
    atomics<<<4, 128>>>(counts, in);
    int host[8];
    cudaMemcpy(host, counts, sizeof host, cudaMemcpyDeviceToHost);
    cudaFree(counts);
}

// An exchange is a store where nothing uses its result.
__global__ void exchanges(int* slots, float* values, float* out) {
    __shared__ unsigned long long kept;
    int x = threadIdx.x;
    atomicExch(&slots[x], x);
    (void)atomicExch_block(&values[x], 1.0f);
    if (x == 0) atomicExch(&kept, 1ull);
    __shared__ int flag;
    if (x == 0) __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    __syncthreads();
    out[x] = slots[x] + values[x] + kept + flag;
}
ENTRY initialised_by_exchange(float* out) {
    int* slots;
    float* values;
    cudaMalloc(&slots, 32 * sizeof(int));
    cudaMalloc(&values, 32 * sizeof(float));
    exchanges<<<1, 32>>>(slots, values, out);
    cudaFree(slots);
    cudaFree(values);
}

// Each block has a counter of its own; its last thread hands the block's work on to everyone.
__global__ void counted_in_block(int* counts, int* partial, int* finished, int* out) {
    partial[blockIdx.x * blockDim.x + threadIdx.x] = 1;
    __threadfence_block();
    if (atomicAdd_block(&counts[blockIdx.x], 1) < blockDim.x - 1) return;
    int sum = 0;
    for (int i = 0; i < blockDim.x; i++) sum += partial[blockIdx.x * blockDim.x + i];
    counts[blockIdx.x] = sum;
    __threadfence();
    if (atomicAdd(finished, 1) < gridDim.x - 1) return;
    sum = 0;
    for (int i = 0; i < gridDim.x * blockDim.x; i++) sum += partial[i];
    for (int i = 0; i < gridDim.x; i++) sum += counts[i];
    *out = sum;
}
ENTRY counters_of_blocks() {
    int* memory;
    cudaMalloc(&memory, (4 + 4 * 64 + 2) * sizeof(int));
    cudaMemset(memory, 0, (4 + 4 * 64 + 2) * sizeof(int));
    counted_in_block<<<4, 64>>>(memory, memory + 4, memory + 260, memory + 261);
    cudaFree(memory);
}

__global__ void locked(int* lock, int* value) {
    if (threadIdx.x != 0) return;
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
    *value += 1;
    __threadfence();
    atomicExch(lock, 0);
}
ENTRY lock() {
    int* memory;
    cudaMalloc(&memory, 2 * sizeof(int));
    cudaMemset(memory, 0, 2 * sizeof(int));
    locked<<<8, 64>>>(memory, memory + 1);
    cudaFree(memory);
}

__global__ void locked_by_warps(int* lock, int* value) {
    if (threadIdx.x % 32 != 0) return;
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    __threadfence();
    *value += 1;
    __threadfence();
    atomicExch(lock, 0);
}
ENTRY lock_within_block() {
    int* memory;
    cudaMalloc(&memory, 2 * sizeof(int));
    cudaMemset(memory, 0, 2 * sizeof(int));
    locked_by_warps<<<2, 256>>>(memory, memory + 1);
    cudaFree(memory);
}

__global__ void double_buffered(float* out, const float* in, int rounds) {
    __shared__ float tiles[2][64];
    int x = threadIdx.x;
    float sum = 0;
    tiles[0][x] = in[x];
    for (int i = 0; i < rounds; i++) {
        __syncthreads();
        if (i + 1 < rounds) tiles[(i + 1) % 2][x] = in[x + i + 1];
        sum += tiles[i % 2][63 - x];
    }
    out[x] = sum;
}
ENTRY double_buffering(const float* in, float* out) { double_buffered<<<1, 64>>>(out, in, 5); }

__global__ void last_block_sums(const float* in, float* partial, unsigned* ticket, float* out) {
    __shared__ float sums[64];
    __shared__ bool last;
    int x = threadIdx.x;
    sums[x] = in[x];
    __syncthreads();
    for (int k = 32; k > 0; k /= 2) {
        if (x < k) sums[x] += sums[x + k];
        __syncthreads();
    }
    if (x == 0) {
        partial[blockIdx.x] = sums[0];
        __threadfence();
        last = atomicInc(ticket, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && x < gridDim.x) out[x] = partial[x];
}
ENTRY last_block(const float* in, float* out) {
    float* partial;
    unsigned* ticket;
    cudaMalloc(&partial, 8 * sizeof(float));
    cudaMalloc(&ticket, sizeof(unsigned));
    cudaMemset(ticket, 0, sizeof(unsigned));
    last_block_sums<<<8, 64>>>(in, partial, ticket, out);
    cudaFree(partial);
    cudaFree(ticket);
}

// Every thread writes, every thread fences, one draws the ticket for all.
__global__ void last_block_all_write(const float* in, float* partial, unsigned* ticket,
                                     float* out) {
    __shared__ bool last;
    int x = threadIdx.x;
    partial[blockIdx.x * 64 + x] = in[x];
    __threadfence();
    __syncthreads();
    if (x == 0) last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    float sum = 0;
    for (int i = 0; i < gridDim.x; i++) sum += partial[i * 64 + 63 - x];
    out[x] = sum;
}
ENTRY last_block_of_many(const float* in, float* out) {
    float* partial;
    unsigned* ticket;
    cudaMalloc(&partial, 4 * 64 * sizeof(float));
    cudaMalloc(&ticket, sizeof(unsigned));
    cudaMemset(ticket, 0, sizeof(unsigned));
    last_block_all_write<<<4, 64>>>(in, partial, ticket, out);
    cudaFree(partial);
    cudaFree(ticket);
}

__global__ void reused(float* out, const float* in) {
    __shared__ float tile[64];
    int x = threadIdx.x;
    for (int i = 0; i < 3; i++) {
        tile[x] = in[x] * i;
        __syncthreads();
        out[x] = tile[63 - x];
        __syncthreads();
    }
}
ENTRY reuse_after_barrier(const float* in, float* out) { reused<<<1, 64>>>(out, in); }

// All threads store the same value to one place: no harm is done.
__global__ void same_value(float* out, const float* in) {
    __shared__ float scale;
    scale = in[0] * 2;
    __syncthreads();
    out[threadIdx.x] = scale;
}
ENTRY same_value_stores(const float* in, float* out) { same_value<<<1, 64>>>(out, in); }

__global__ void same_vector(float4* out, const float4* in) { out[0] = in[0]; }
ENTRY same_vector_stores(const float* in) {
    float4* out;
    cudaMalloc(&out, sizeof(float4));
    same_vector<<<2, 32>>>(out, (const float4*)in);
    cudaFree(out);
}

__global__ void small_types(unsigned char* bytes, unsigned short* halves) {
    __shared__ unsigned char tile[64];
    __shared__ unsigned short wide[64];
    tile[threadIdx.x] = threadIdx.x;
    wide[threadIdx.x] = threadIdx.x;
    __syncthreads();
    bytes[threadIdx.x] = tile[63 - threadIdx.x];
    halves[threadIdx.x] = wide[63 - threadIdx.x];
}
ENTRY bytes_of_one_word() {
    unsigned char* bytes;
    cudaMalloc(&bytes, 256);
    small_types<<<1, 64>>>(bytes, (unsigned short*)(bytes + 64));
    cudaFree(bytes);
}

__global__ void first_kernel(float* p) { p[threadIdx.x] = threadIdx.x; }
__global__ void second_kernel(float* out, const float* p) {
    out[threadIdx.x] = p[31 - threadIdx.x];
}
ENTRY two_kernels(float* out) {
    float* p;
    cudaMalloc(&p, 32 * sizeof(float));
    first_kernel<<<1, 32>>>(p);
    second_kernel<<<1, 32>>>(out, p);
    cudaFree(p);
}

__global__ void dynamic_parts(float* out, int n) {
    extern __shared__ float buffer[];
    float *first = buffer, *second = buffer + n;
    first[threadIdx.x] = 1;
    second[threadIdx.x] = 2;
    __syncthreads();
    out[threadIdx.x] = first[n - 1 - threadIdx.x] + second[n - 1 - threadIdx.x];
}
ENTRY dynamic_shared(float* out) { dynamic_parts<<<2, 64, 128 * sizeof(float)>>>(out, 64); }

struct Pair {
    float first, second, third;
};
__global__ void structures(Pair* out, Pair given) {
    Pair mine = given;
    mine.first += threadIdx.x;
    Pair list[4];
    for (int i = 0; i < 4; i++) list[i] = mine;
    Pair* chosen = &list[threadIdx.x % 4];
    chosen->second += 1;
    out[threadIdx.x] = *chosen;
}
ENTRY parameters_and_locals() {
    Pair* out;
    cudaMalloc(&out, 32 * sizeof(Pair));
    structures<<<1, 32>>>(out, Pair{1, 2, 3});
    cudaFree(out);
}

// Nothing writes the padding behind the flag; copying the object reads it.
struct Flagged {
    float value;
    bool flag;
};
__global__ void padded_objects(Flagged* out) {
    __shared__ Flagged shared[32];
    Flagged* mine = &shared[threadIdx.x];
    mine->value = 1;
    mine->flag = threadIdx.x % 2;
    __syncthreads();
    out[threadIdx.x] = shared[31 - threadIdx.x];
}
__global__ void padded_objects_back(Flagged* to, const Flagged* from) {
    to[threadIdx.x] = from[31 - threadIdx.x];
}
ENTRY padding_in_objects() {
    Flagged *first, *second;
    cudaMalloc(&first, 32 * sizeof(Flagged));
    cudaMalloc(&second, 32 * sizeof(Flagged));
    padded_objects<<<1, 32>>>(first);
    padded_objects_back<<<1, 32>>>(second, first);
    cudaFree(first);
    cudaFree(second);
}

__device__ float table[32];
__constant__ float coefficients[2];
__global__ void fills_table() { table[threadIdx.x] = coefficients[threadIdx.x % 2]; }
__global__ void reads_table(float* out) { out[threadIdx.x] = table[31 - threadIdx.x]; }
ENTRY device_variables(float* out) {
    float values[2] = {1, 2};
    cudaMemcpyToSymbol(coefficients, values, sizeof values);
    fills_table<<<1, 32>>>();
    reads_table<<<1, 32>>>(out);
    float back[32];
    cudaMemcpyFromSymbol(back, table, sizeof back);
}

// A flag that is polled: volatile accesses of global memory between fences.
__global__ void producer_consumer(volatile int* flag, int* data, int* out) {
    if (threadIdx.x == 32) {
        while (*flag == 0) {
        }
        __threadfence();
        *out = *data;
    } else if (threadIdx.x == 0) {
        *data = 42;
        __threadfence();
        *flag = 1;
    }
}
ENTRY polled_flag() {
    int* memory;
    cudaMalloc(&memory, 3 * sizeof(int));
    cudaMemset(memory, 0, 3 * sizeof(int));
    producer_consumer<<<1, 64>>>(memory, memory + 1, memory + 2);
    cudaFree(memory);
}

// Host code with everything a program may do.
static std::vector<float> kept(16, 1.0f);
static int calls;
ENTRY host_code(float* h, int n) {
    std::vector<float> values(n);
    for (int i = 0; i < n; i++) values[i] = h[n - 1 - i];
    std::sort(values.begin(), values.end());
    std::map<std::string, int> names;
    std::ostringstream text;
    for (int i = 0; i < 20; i++) {
        text << "number " << i << ' ' << values[i % n];
        names[text.str()] += i;
    }
    kept.push_back(values[0]);
    calls++;
    auto* block = static_cast<int*>(malloc(40));
    for (int i = 0; i < 10; i++) block[i] = i;
    block = static_cast<int*>(realloc(block, 4000));
    block[999] = block[9];
    free(block);
    float* pinned;
    cudaMallocHost(&pinned, 64);
    pinned[15] = 1;
    cudaFreeHost(pinned);
    for (int i = 0; i < n; i++) h[i] = values[i] + names.size() + calls;
    errno = 0;
    std::cout << std::hex << calls << std::endl;
}
