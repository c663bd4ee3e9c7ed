// One mistake per entry. A comment `// -> name` marks the line that the finding of entry `name`
// must point at, `// other -> name` the line of the other access.
#include <cuda/atomic>
#include <cuda_runtime.h>
#include <math_constants.h>

#include <cassert>
#include <cstring>
#include <vector>

#define ENTRY extern "C" void

// ---- Global memory ----

__global__ void writes_past_end(float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 1;  // -> out_of_bounds_write
}
ENTRY out_of_bounds_write(float* out, int n) { writes_past_end<<<n / 64 + 1, 64>>>(out); }

__global__ void reads_before_start(float* out, const float* in) {
    out[threadIdx.x] = in[(int)threadIdx.x - 3];  // -> out_of_bounds_read
}
ENTRY out_of_bounds_read(const float* in, float* out) { reads_before_start<<<1, 32>>>(out, in); }

__global__ void loads_local_memory(float* out, const float* in) {
    float own[2] = {in[threadIdx.x], 0};
    float value;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(own) : "memory");  // -> local_as_global
    out[threadIdx.x] = value;
}
ENTRY local_as_global(const float* in, float* out) { loads_local_memory<<<1, 32>>>(out, in); }

__global__ void reads_after_vector(float4* out, const float4* in) {
    out[threadIdx.x] = in[threadIdx.x];  // -> out_of_bounds_vector
}
ENTRY out_of_bounds_vector() {
    float *in, *out;
    cudaMalloc(&in, 30 * 4);
    cudaMalloc(&out, 32 * 4);
    cudaMemset(in, 0, 30 * 4);
    reads_after_vector<<<1, 8>>>((float4*)out, (const float4*)in);
}

// g++ would make vector instructions of a copy of so few bytes.
__global__ void copy_by_memcpy(const float* in, float* out) {
    float held[8];
    memcpy(held, in + 8 * threadIdx.x, sizeof held);  // -> memcpy_out_of_bounds
    memcpy(out, held, sizeof held);
}
ENTRY memcpy_out_of_bounds() {
    float *in, *out;
    cudaMalloc(&in, 100);
    cudaMalloc(&out, 256);
    cudaMemset(in, 0, 100);
    copy_by_memcpy<<<1, 4>>>(in, out);
}

__global__ void copies_too_much(float* out) {
    float4 one;
    memcpy(&one, out, 128);  // -> memcpy_past_its_variable
    out[0] = one.x;
}
ENTRY memcpy_past_its_variable(float* out) { copies_too_much<<<1, 1>>>(out); }

__global__ void stores_one(float* out) { out[threadIdx.x] = 1; }  // -> use_after_free_write
ENTRY use_after_free_write() {
    float* p;
    cudaMalloc(&p, 128);
    cudaFree(p);
    float* q;
    cudaMalloc(&q, 128);
    stores_one<<<1, 32>>>(p);
    cudaFree(q);
}

__global__ void loads_one(const float* in, float* out) {
    out[threadIdx.x] = in[threadIdx.x];  // -> use_after_free_read, uninitialised_global, host_pointer
}
ENTRY use_after_free_read(float* out) {
    float* p;
    cudaMalloc(&p, 128);
    cudaMemset(p, 0, 128);
    cudaFree(p);
    loads_one<<<1, 32>>>(p, out);
}
ENTRY uninitialised_global(float* out) {
    float* p;
    cudaMalloc(&p, 128);
    cudaMemset(p, 0, 64);
    loads_one<<<1, 32>>>(p, out);
    cudaFree(p);
}
ENTRY host_pointer(float* out) {
    std::vector<float> h(32);
    loads_one<<<1, 32>>>(h.data(), out);
}

__global__ void exchanges(int* slots, float* out) {
    int before = atomicExch(&slots[threadIdx.x], 1);  // -> uninitialised_exchange
    out[threadIdx.x] = before;
}
ENTRY uninitialised_exchange(float* out) {
    int* slots;
    cudaMalloc(&slots, 32 * sizeof(int));
    exchanges<<<1, 32>>>(slots, out);
    cudaFree(slots);
}

__global__ void reads_output(float* out) {
    out[threadIdx.x] += 1;  // -> uninitialised_output
}
ENTRY uninitialised_output(float* out) { reads_output<<<1, 32>>>(out); }

__global__ void past_own_frame(float* out) {
    float values[4] = {1, 2, 3, 4};
    float* volatile chosen = values;
    out[0] = chosen[-5000];  // -> local_memory
}
ENTRY local_memory(float* out) { past_own_frame<<<1, 1>>>(out); }

__global__ void writes_input(const float* in) {
    ((float*)in)[threadIdx.x] = 0;  // -> write_to_input
}
ENTRY write_to_input(const float* in) { writes_input<<<1, 32>>>(in); }

__global__ void through_null(float* p) {
    p[threadIdx.x] = 1;  // -> null_pointer
}
ENTRY null_pointer() { through_null<<<1, 32>>>(nullptr); }

__global__ void misaligned_vector(float* p) {
    ((float4*)(p + 1))[threadIdx.x] = make_float4(0, 0, 0, 0);  // -> misaligned
}
ENTRY misaligned(float* out) { misaligned_vector<<<1, 2>>>(out); }

__device__ int counters[4];
__constant__ float coefficients[4];
__global__ void past_device_variable(int i) {
    counters[threadIdx.x + i] = 1;  // -> device_variable
}
ENTRY device_variable() { past_device_variable<<<1, 4>>>(100000); }

__global__ void writes_constant() {
    ((float*)coefficients)[threadIdx.x] = 1;  // -> constant_variable
}
ENTRY constant_variable() { writes_constant<<<1, 4>>>(); }

__constant__ float g[4];
__global__ void writes_constant_g() {
    ((float*)g)[threadIdx.x] = 1;  // -> constant_of_one_letter
}
ENTRY constant_of_one_letter() { writes_constant_g<<<1, 4>>>(); }

// ---- The read-only cache ----

__global__ void reads_back(float* out) {
    out[threadIdx.x] = 1;  // other -> read_only_own
    out[threadIdx.x] = 2 * __ldg(&out[threadIdx.x]);  // -> read_only_own
}
ENTRY read_only_own(float* out) { reads_back<<<1, 32>>>(out); }

__global__ void stores_later(float* out) {
    float other = __ldg(&out[31 - threadIdx.x]);  // -> read_only_early
    __syncthreads();
    out[threadIdx.x] = 1 + other;  // other -> read_only_early
}
ENTRY read_only_early(float* out) {
    cudaMemset(out, 0, 32 * sizeof(float));
    stores_later<<<1, 32>>>(out);
}

__global__ void reads_others(float* out, float* partial) {
    atomicAdd(&partial[threadIdx.x / 2], 1);  // other -> read_only_atomic
    __syncthreads();
    out[threadIdx.x] = __ldg((const float4*)partial).y;  // -> read_only_atomic
}
ENTRY read_only_atomic(float* out) {
    float* partial;
    cudaMalloc(&partial, 32 * sizeof(float));
    cudaMemset(partial, 0, 32 * sizeof(float));
    reads_others<<<1, 32>>>(out, partial);
    cudaFree(partial);
}

// ---- Arithmetic ----

__global__ void shifts(float* out, int by) {
    out[threadIdx.x] = 5 << by;  // -> shift_by_width
}
ENTRY shift_by_width(float* out) { shifts<<<1, 1>>>(out, 32); }

__global__ void shifts_back(float* out, int by) {
    out[threadIdx.x] = 5ull >> by;  // -> shift_by_less_than_0
}
ENTRY shift_by_less_than_0(float* out) { shifts_back<<<1, 1>>>(out, -1); }

__global__ void converts_to_int(float* out, float x) {
    out[threadIdx.x] = (int)x;  // -> convert_above_int, convert_nan
}
ENTRY convert_above_int(float* out) { converts_to_int<<<1, 1>>>(out, 3e9f); }
ENTRY convert_nan(float* out) { converts_to_int<<<1, 1>>>(out, CUDART_NAN_F); }

__global__ void converts_to_unsigned(float* out, double x) {
    out[threadIdx.x] = (unsigned)x;  // -> convert_below_unsigned
}
ENTRY convert_below_unsigned(float* out) { converts_to_unsigned<<<1, 1>>>(out, -1.0); }

// ---- Shared memory ----

__global__ void past_static(float* out, int last) {
    __shared__ float first[64];
    __shared__ float second[64];
    float* p = first;
    second[threadIdx.x] = 0;
    p[threadIdx.x + last] = 1;  // -> shared_neighbour
    __syncthreads();
    out[threadIdx.x] = second[threadIdx.x] + first[threadIdx.x];
}
ENTRY shared_neighbour(float* out) { past_static<<<1, 32>>>(out, 33); }

__global__ void past_dynamic(float* out) {
    extern __shared__ float buffer[];
    buffer[threadIdx.x] = 1;  // -> shared_dynamic
    __syncthreads();
    out[threadIdx.x] = buffer[threadIdx.x];
}
ENTRY shared_dynamic(float* out) { past_dynamic<<<1, 32, 31 * sizeof(float)>>>(out); }

__global__ void past_row(float* out) {
    __shared__ float tile[16][16];
    int x = threadIdx.x;
    tile[3][x] = x;  // -> index_write
    __syncthreads();
    out[x] = tile[3][x & 15];
}
ENTRY index_write(float* out) { past_row<<<1, 32>>>(out); }

__global__ void past_row_reading(float* out) {
    __shared__ float tile[2][32];
    int x = threadIdx.x;
    tile[0][x] = tile[1][x] = x;
    __syncthreads();
    out[x] = tile[0][x + 1];  // -> index_read
}
ENTRY index_read(float* out) { past_row_reading<<<1, 32>>>(out); }

__global__ void past_local(float* out, int n) {
    float values[8];
    for (int i = 0; i < 8; i++) values[i] = i;
    for (int i = 0; i <= n; i++) values[i] += out[0];  // -> index_local
    float sum = 0;
    for (int i = 0; i < 8; i++) sum += values[i];
    out[threadIdx.x] = sum;
}
ENTRY index_local(float* out) {
    cudaMemset(out, 0, 128);
    past_local<<<1, 1>>>(out, 8);
}

__global__ void half_filled(float* out) {
    __shared__ float tile[64];
    if (threadIdx.x < 40) tile[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];  // -> uninitialised_shared
}
ENTRY uninitialised_shared(float* out) { half_filled<<<1, 64>>>(out); }

// Each block starts with shared memory that nobody has written.
__global__ void filled_by_first_block(float* out) {
    __shared__ float tile[32];
    if (blockIdx.x == 0) tile[threadIdx.x] = 1;
    __syncthreads();
    out[32 * blockIdx.x + threadIdx.x] = tile[threadIdx.x];  // -> uninitialised_block
}
ENTRY uninitialised_block(float* out) { filled_by_first_block<<<2, 32>>>(out); }

// ---- Races ----

__global__ void no_barrier(float* out) {
    __shared__ float tile[256];
    tile[threadIdx.x] = 1;              // other -> race_read
    out[threadIdx.x] = tile[255 - threadIdx.x];  // -> race_read
}
ENTRY race_read(float* out) { no_barrier<<<1, 256>>>(out); }

__global__ void scan_without_barrier(float* out) {
    __shared__ float tile[64];
    int x = threadIdx.x;
    tile[x] = x;
    __syncthreads();
    for (int k = 1; k < 64; k *= 2) {
        float v = x >= k ? tile[x - k] : 0;  // other -> race_write
        tile[x] += v;                        // -> race_write
        __syncthreads();
    }
    out[x] = tile[x];
}
ENTRY race_write(float* out) { scan_without_barrier<<<1, 64>>>(out); }

__global__ void warp_without_sync(float* out) {
    __shared__ volatile float tile[64];
    int x = threadIdx.x;
    tile[x] = x;
    tile[x + 32] = x;
    __syncwarp();
    tile[x] += tile[x + 16];  // -> race_warp
    out[x] = tile[x];
}
ENTRY race_warp(float* out) { warp_without_sync<<<1, 32>>>(out); }

__global__ void half_warp_sync(float* out) {
    __shared__ float tile[32];
    int x = threadIdx.x;
    tile[x] = x;  // other -> race_half_warp
    if (x < 16) __syncwarp(0xffff);
    if (x < 16) out[x] = tile[x + 16];  // -> race_half_warp
}
ENTRY race_half_warp(float* out) { half_warp_sync<<<1, 32>>>(out); }

__global__ void warp_sync_for_block(float* out) {
    __shared__ float tile[64];
    tile[threadIdx.x] = 1;  // other -> race_warps
    __syncwarp();
    out[threadIdx.x] = tile[63 - threadIdx.x];  // -> race_warps
}
ENTRY race_warps(float* out) { warp_sync_for_block<<<1, 64>>>(out); }

__global__ void next_round_too_early(float* out, const float* in, int rounds) {
    __shared__ float tile[64];
    float sum = 0;
    for (int i = 0; i < rounds; i++) {
        tile[threadIdx.x] = in[threadIdx.x] + i;  // -> race_next_round
        __syncthreads();
        sum += tile[63 - threadIdx.x];  // other -> race_next_round
    }
    out[threadIdx.x] = sum;
}
ENTRY race_next_round(const float* in, float* out) { next_round_too_early<<<1, 64>>>(out, in, 3); }

__global__ void blocks_add(float* out) {
    if (threadIdx.x == 0) out[0] = blockIdx.x;  // -> race_blocks
}
ENTRY race_blocks(float* out) { blocks_add<<<2, 32>>>(out); }

__global__ void vectors_collide(float4* out, const float4* in) {
    out[0] = in[threadIdx.x];  // -> race_vector
}
ENTRY race_vector(const float* in, float* out) {
    vectors_collide<<<1, 32>>>((float4*)out, (const float4*)in);
}

__global__ void count_without_atomic(int* count) {
    count[0] += 1;  // -> race_count
}
ENTRY race_count() {
    int* count;
    cudaMalloc(&count, 4);
    cudaMemset(count, 0, 4);
    count_without_atomic<<<1, 64>>>(count);
    cudaFree(count);
}

__global__ void starts_counter_late(int* out) {
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;  // other -> race_atomic
    atomicAdd(&count, 1);             // -> race_atomic
    __syncthreads();
    if (threadIdx.x == 0) out[0] = count;
}
ENTRY race_atomic() {
    int* out;
    cudaMalloc(&out, 4);
    starts_counter_late<<<1, 64>>>(out);
    cudaFree(out);
}

__global__ void bytes_race(unsigned char* out) {
    __shared__ unsigned char flags[64];
    flags[threadIdx.x] = threadIdx.x;            // other -> race_bytes
    out[threadIdx.x] = flags[threadIdx.x ^ 1];   // -> race_bytes
}
ENTRY race_bytes() {
    unsigned char* out;
    cudaMalloc(&out, 64);
    bytes_race<<<1, 64>>>(out);
    cudaFree(out);
}

__global__ void no_fence_last_block(const float* in, float* partial, unsigned* ticket, float* out) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = in[blockIdx.x];  // other -> race_no_fence
        last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float sum = 0;
        for (int i = 0; i < gridDim.x; i++) sum += partial[i];  // -> race_no_fence
        out[0] = sum;
    }
}
ENTRY race_no_fence(const float* in, float* out) {
    float* partial;
    unsigned* ticket;
    cudaMalloc(&partial, 4 * sizeof(float));
    cudaMalloc(&ticket, sizeof(unsigned));
    cudaMemset(ticket, 0, sizeof(unsigned));
    no_fence_last_block<<<4, 32>>>(in, partial, ticket, out);
    cudaFree(partial);
    cudaFree(ticket);
}

__global__ void waits_at_another_barrier(float* out) {
    __shared__ float s[64];
    s[threadIdx.x] = threadIdx.x;  // -> race_named_barriers
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 32;" ::: "memory");
    else asm volatile("bar.sync 2, 32;" ::: "memory");
    out[threadIdx.x] = s[threadIdx.x ^ 32];  // other -> race_named_barriers
}
ENTRY race_named_barriers(float* out) { waits_at_another_barrier<<<1, 64>>>(out); }

__global__ void nobody_else_comes(float* out) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;" ::: "memory");  // -> named_barrier_alone
    out[threadIdx.x] = 1;
}
ENTRY named_barrier_alone(float* out) { nobody_else_comes<<<1, 64>>>(out); }

__global__ void counts_differ(float* out) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;" ::: "memory");
    else asm volatile("bar.sync 1, 96;" ::: "memory");  // -> named_barrier_counts
    out[threadIdx.x] = 1;
}
ENTRY named_barrier_counts(float* out) { counts_differ<<<1, 96>>>(out); }

// An exchange that doesn't take place is no store, so nothing is released by it.
__global__ void failing_exchange(const float* in, float* partial, int* flag, float* out) {
    if (threadIdx.x != 0) return;
    const cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    if (blockIdx.x == 0) {
        partial[0] = in[0];  // other -> race_failed_exchange
        int expected = 7;
        ready.compare_exchange_strong(expected, 8, cuda::memory_order_acq_rel);
    } else {
        ready.load(cuda::memory_order_acquire);
        out[0] = partial[0];  // -> race_failed_exchange
    }
}
ENTRY race_failed_exchange(const float* in, float* out) {
    float* partial;
    cudaMalloc(&partial, 8);
    cudaMemset(partial, 0, 8);
    failing_exchange<<<2, 32>>>(in, partial, reinterpret_cast<int*>(partial + 1), out);
    cudaFree(partial);
}

__global__ void reset_without_barrier(unsigned* ticket) {
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(ticket, 1u);  // other -> race_reset_of_ticket
    }
    if (blockIdx.x == 3 && threadIdx.x == 32) *ticket = 0;  // -> race_reset_of_ticket
}
ENTRY race_reset_of_ticket() {
    unsigned* ticket;
    cudaMalloc(&ticket, sizeof(unsigned));
    cudaMemset(ticket, 0, sizeof(unsigned));
    reset_without_barrier<<<4, 64>>>(ticket);
    cudaFree(ticket);
}

__global__ void block_counts(int* count) {
    atomicAdd_block(count, 1);  // -> race_block_atomics
}
ENTRY race_block_atomics() {
    int* count;
    cudaMalloc(&count, sizeof(int));
    cudaMemset(count, 0, sizeof(int));
    block_counts<<<3, 64>>>(count);
    cudaFree(count);
}

__global__ void mixed_scopes(int* count) {
    if (threadIdx.x) return;
    if (blockIdx.x == 0) atomicMax_block(count, 1);  // other -> race_scopes
    if (blockIdx.x == 1) atomicMax(count, 2);        // -> race_scopes
}
ENTRY race_scopes() {
    int* count;
    cudaMalloc(&count, sizeof(int));
    cudaMemset(count, 0, sizeof(int));
    mixed_scopes<<<2, 32>>>(count);
    cudaFree(count);
}

__global__ void polled_flag(int* flag) {
    if (threadIdx.x) return;
    if (blockIdx.x == 0) atomicExch_block(flag, 1);  // other -> race_block_flag
    if (blockIdx.x == 1) {
        while (*(volatile int*)flag == 0) {}  // -> race_block_flag
    }
}
ENTRY race_block_flag() {
    int* flag;
    cudaMalloc(&flag, sizeof(int));
    cudaMemset(flag, 0, sizeof(int));
    polled_flag<<<2, 32>>>(flag);
    cudaFree(flag);
}

// One thread's fence before the barrier covers its own store, and not those of other warps.
__global__ void fence_before_barrier(float* partial, unsigned* ticket, float* out) {
    __shared__ bool last;
    partial[blockIdx.x * blockDim.x + threadIdx.x] = 1;  // other -> race_fence_before_barrier
    if (threadIdx.x == 0) __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(ticket, 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    float sum = 0;
    for (int i = 0; i < gridDim.x; i++) {
        sum += partial[i * blockDim.x + threadIdx.x];  // -> race_fence_before_barrier
    }
    out[threadIdx.x] = sum;
}
ENTRY race_fence_before_barrier(float* out) {
    float* partial;
    unsigned* ticket;
    cudaMalloc(&partial, 4 * 64 * sizeof(float));
    cudaMalloc(&ticket, sizeof(unsigned));
    cudaMemset(ticket, 0, sizeof(unsigned));
    fence_before_barrier<<<4, 64>>>(partial, ticket, out);
    cudaFree(partial);
    cudaFree(ticket);
}

__global__ void block_fence(float* partial, unsigned* ticket, float* out) {
    if (threadIdx.x) return;
    partial[blockIdx.x] = 1;  // other -> race_block_fence
    __threadfence_block();
    if (atomicAdd(ticket, 1u) < gridDim.x - 1) return;
    float sum = 0;
    for (int i = 0; i < gridDim.x; i++) sum += partial[i];  // -> race_block_fence
    out[0] = sum;
}
ENTRY race_block_fence(float* out) {
    float* partial;
    unsigned* ticket;
    cudaMalloc(&partial, 4 * sizeof(float));
    cudaMalloc(&ticket, sizeof(unsigned));
    cudaMemset(ticket, 0, sizeof(unsigned));
    block_fence<<<4, 32>>>(partial, ticket, out);
    cudaFree(partial);
    cudaFree(ticket);
}

// ---- Barriers and warps ----

__global__ void two_barriers(float* out) {
    if (threadIdx.x < 16) {
        __syncthreads();  // -> divergent_barrier
    } else {
        __syncthreads();  // other -> divergent_barrier
    }
    out[threadIdx.x] = 1;
}
ENTRY divergent_barrier(float* out) { two_barriers<<<1, 32>>>(out); }

__global__ void two_barriers_on_a_line(float* out) {
    threadIdx.x < 16 ? __syncthreads() : __syncthreads();  // -> divergent_on_a_line
    out[threadIdx.x] = 1;
}
ENTRY divergent_on_a_line(float* out) { two_barriers_on_a_line<<<1, 32>>>(out); }

#define MEET(condition) ((condition) ? __syncthreads_or(1) : __syncthreads_or(0))
__global__ void two_barriers_of_a_macro(float* out) {
    out[threadIdx.x] = MEET(threadIdx.x < 32);  // -> divergent_in_a_macro
}
ENTRY divergent_in_a_macro(float* out) { two_barriers_of_a_macro<<<1, 64>>>(out); }

__global__ void sums_active_lanes(float* out, const float* in) {
    float value = 0;
    if (threadIdx.x % 2) value = in[threadIdx.x];
    for (int k = 16; k; k /= 2) {
        value += __shfl_xor_sync(__activemask(), value, k);  // -> activemask_after_branch
    }
    out[threadIdx.x] = value;
}
ENTRY activemask_after_branch(const float* in, float* out) {
    sums_active_lanes<<<1, 32>>>(out, in);
}

__global__ void half_a_warp_waits(float* out) {
    if (threadIdx.x < 16) __syncwarp();  // -> syncwarp_absent
    __syncthreads();  // other -> syncwarp_absent
    out[threadIdx.x] = 1;
}
ENTRY syncwarp_absent(float* out) { half_a_warp_waits<<<1, 32>>>(out); }

__global__ void returns_early(float* out, int n) {
    if (threadIdx.x >= n) return;
    __syncthreads();  // -> missing_barrier
    out[threadIdx.x] = 1;
}
ENTRY missing_barrier(float* out) { returns_early<<<1, 64>>>(out, 40); }

__global__ void waits_for_lane(float* out) {
    float v = threadIdx.x;
    if (threadIdx.x < 16) v = __shfl_down_sync(0xffffffff, v, 8);  // -> deadlock
    else __syncthreads();  // other -> deadlock
    out[threadIdx.x] = v;
}
ENTRY deadlock(float* out) { waits_for_lane<<<1, 32>>>(out); }

__global__ void shuffle_from_gone(float* out) {
    float v = threadIdx.x;
    if (threadIdx.x >= 16) return;
    v = __shfl_down_sync(0xffff, v, 16);  // -> shuffle_absent_lane
    out[threadIdx.x] = v;
}
ENTRY shuffle_absent_lane(float* out) { shuffle_from_gone<<<1, 32>>>(out); }

__global__ void mask_without_self(float* out) {
    out[threadIdx.x] = __shfl_sync(0x0000fffe, 1.0f, 1);  // -> bad_warp_mask
}
ENTRY bad_warp_mask(float* out) { mask_without_self<<<1, 32>>>(out); }

__global__ void asserts(float* out) {
    assert(threadIdx.x < 7);  // -> device_assert
    out[threadIdx.x] = 1;
}
ENTRY device_assert(float* out) { asserts<<<1, 32>>>(out); }

__global__ void assumes(float* out) {
    __builtin_assume(threadIdx.x < 7);  // -> false_assumption
    out[threadIdx.x] = 0.0f;
}
ENTRY false_assumption(float* out) { assumes<<<1, 32>>>(out); }

// ---- The host's side ----

static int global_count;
ENTRY device_pointer_on_host(float* out) {
    out[3] = 1;  // -> device_pointer_on_host
}
ENTRY device_pointer_in_memcpy(float* out) {
    float h[8] = {float(global_count)};
    memcpy(out, h, sizeof h);  // -> device_pointer_in_memcpy
}
ENTRY device_variable_on_host() {
    counters[1] = 1;  // -> device_variable_on_host
}
ENTRY wrong_copy_direction(float* out) {
    float h[8] = {};
    cudaMemcpy(out, h, sizeof h, cudaMemcpyDeviceToHost);  // -> wrong_copy_direction
}
ENTRY copy_reads_outside(const float* in, int n) {
    std::vector<float> h(n + 1);
    cudaMemcpy(h.data(), in, (n + 1) * sizeof(float), cudaMemcpyDeviceToHost);  // -> copy_reads_outside
}
ENTRY copy_writes_outside(float* out, int n) {
    std::vector<float> h(n + 1);
    cudaMemcpy(out, h.data(), (n + 1) * sizeof(float), cudaMemcpyHostToDevice);  // -> copy_writes_outside
}
ENTRY copy_to_input(const float* in, int n) {
    cudaMemset((void*)in, 0, n * sizeof(float));  // -> copy_to_input
}
ENTRY launch_error(float* out) {
    stores_one<<<1, 2048>>>(out);  // -> launch_error
}
ENTRY double_free() {
    float* p;
    cudaMalloc(&p, 100);
    cudaFree(p);
    cudaFree(p);  // -> double_free
}
ENTRY frees_argument(float* out) {
    cudaFree(out);  // -> frees_argument
}
ENTRY leak() {
    float* p;
    cudaMalloc(&p, 100);  // -> leak
}
ENTRY stray_host_store() {
    volatile long place = 0x500000000000;
    *(volatile int*)place = 1;  // -> stray_host_store
}
ENTRY stray_into_library() {
    auto* code = (volatile unsigned char*)&strlen;
    *code = 0;  // -> stray_into_library
}
ENTRY stray_into_shared() {
    warpgrade_dynamic_shared[0] = 1;  // -> stray_into_shared
}
ENTRY host_index(int n) {
    int values[4] = {0, 1, 2, 3};
    values[n] = 1;  // -> host_index
    global_count = values[n & 3];
}
ENTRY host_argument_write(float* h, int n) {
    h[n] = 1;  // -> host_argument_write
}
ENTRY host_argument_read(float* h, int n) {
    global_count = h[n + 100];  // -> host_argument_read
}

// ---- Stores and atomics that look harmless ----

__device__ float2 pair_from(float x) { return make_float2(x, x + 1); }
__global__ void stores_what_a_call_returns(float2* out) {
    out[threadIdx.x + 1] = pair_from(threadIdx.x);  // -> returned_structure_outside
}
ENTRY returned_structure_outside(float* out, int n) {
    stores_what_a_call_returns<<<1, n / 2>>>((float2*)out);
}

struct Wide {
    float values[8];
};
__device__ __noinline__ float first_of(Wide wide) { return wide.values[0]; }
__global__ void passes_structure(const float* in, float* out) {
    const Wide* wide = reinterpret_cast<const Wide*>(in);
    out[threadIdx.x] = first_of(wide[threadIdx.x]);  // -> passed_structure_outside
}
ENTRY passed_structure_outside(const float* in, float* out) {
    passes_structure<<<1, 64>>>(in, out);
}
__device__ __noinline__ float4 doubled(float4 four) {
    return make_float4(2 * four.x, 2 * four.y, 2 * four.z, 2 * four.w);
}
__global__ void returns_structure(float4* out) {
    float4 four = make_float4(1, 2, 3, threadIdx.x);
    out[threadIdx.x] = doubled(four);  // -> structure_of_a_call_outside
}
ENTRY structure_of_a_call_outside(float* out, int n) {
    returns_structure<<<1, n / 4 + 1>>>(reinterpret_cast<float4*>(out));
}

__global__ void reads_a_total_too_early(float* out) {
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    atomicAdd(&total, 1);  // -> total_read_too_early
    out[threadIdx.x] = total;  // other -> total_read_too_early
}
ENTRY total_read_too_early(float* out) { reads_a_total_too_early<<<1, 64>>>(out); }
