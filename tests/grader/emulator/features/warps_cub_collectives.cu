// Warps: CUB's collectives: WarpReduce, BlockReduce, BlockLoad and BlockStore, with TempStorage of CUB's sizes
#include <cub/block/block_load.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_reduce.cuh>

constexpr int THREADS = 64, ITEMS = 8;

struct Sums {
    double sum, squares;
    int count;
};
struct AddSums {
    __device__ Sums operator()(const Sums& a, const Sums& b) const {
        return {a.sum + b.sum, a.squares + b.squares, a.count + b.count};
    }
};
struct Larger {
    __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};
using OfInts = cub::BlockReduce<int, THREADS>;
using OfSums = cub::BlockReduce<Sums, 16, cub::BLOCK_REDUCE_WARP_REDUCTIONS, 4>;
using OfFew = cub::BlockReduce<int, 48>;
using OfWarp = cub::WarpReduce<float>;
using OfEight = cub::WarpReduce<int, 8>;
using Direct = cub::BlockLoad<int, THREADS, ITEMS>;
using Striped = cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_STRIPED>;
using Vectors = cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_VECTORIZE>;
using Turned = cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_TRANSPOSE>;
using StoreTurned = cub::BlockStore<int, THREADS, ITEMS, cub::BLOCK_STORE_TRANSPOSE>;
using OfPlane = cub::BlockStore<int, 16, ITEMS, cub::BLOCK_STORE_TRANSPOSE, 4>;
using StoreVectors = cub::BlockStore<int, THREADS, ITEMS, cub::BLOCK_STORE_VECTORIZE>;
static_assert(sizeof(OfInts::TempStorage) == 16 && sizeof(OfSums::TempStorage) == 80);
static_assert(sizeof(OfFew::TempStorage) == 16 && sizeof(OfWarp::TempStorage) == 1);
static_assert(sizeof(Direct::TempStorage) == 1 && sizeof(Turned::TempStorage) == 2112);
static_assert(sizeof(StoreTurned::TempStorage) == 2128);

__global__ void few(int* output) {
    __shared__ OfFew::TempStorage temporary;
    const int sum = OfFew(temporary).Sum(static_cast<int>(threadIdx.x));
    if (threadIdx.x == 0) *output = sum == 47 * 24;
}

__global__ void kernel(int* output, int* many) {
    __shared__ union {
        OfInts::TempStorage ints;
        OfSums::TempStorage sums;
        OfWarp::TempStorage of_warps[2];
        OfEight::TempStorage of_eight[8];
        OfPlane::TempStorage plane;
    } temporary;
    const int thread = threadIdx.x + 16 * threadIdx.y;
    bool right = true;

    // A block of 16 by 4 threads, whose values have 24 bytes.
    const Sums sums = OfSums(temporary.sums).Reduce(Sums{0.5 * thread, 2.0, 1}, AddSums());
    if (thread == 0) right &= sums.sum == 1008 && sums.squares == 128 && sums.count == 64;
    __syncthreads();
    const int warp_sum = static_cast<int>(OfWarp(temporary.of_warps[thread / 32]).Sum(1.0f, 20));
    if (thread % 32 == 0) right &= warp_sum == 20;
    const int largest = OfEight(temporary.of_eight[thread / 8]).Reduce(thread, Larger());
    if (thread % 8 == 0) right &= largest == thread + 7;
    __syncthreads();

    int items[ITEMS];
    for (int i = 0; i < ITEMS; ++i) items[i] = thread * ITEMS + i;
    OfPlane(temporary.plane).Store(many, items, THREADS * ITEMS - 3);
    output[thread] = right;
}

__global__ void line(int* output, int* many) {
    __shared__ OfInts::TempStorage ints;
    __shared__ Turned::TempStorage turned;
    __shared__ StoreTurned::TempStorage store_turned;
    const int thread = threadIdx.x;
    bool right = output[thread];
    int items[ITEMS], others[ITEMS];

    // Thread 0 has the result of a block; of 40 valid values, and of eight from each thread.
    const int sum = OfInts(ints).Sum(thread, 40);
    if (thread == 0) right &= sum == 39 * 20;
    Direct().Load(many, items, THREADS * ITEMS - 3, -1);
    for (int i = 0; i < ITEMS; ++i)
        right &= items[i] == (thread * ITEMS + i < THREADS * ITEMS - 3 ? thread * ITEMS + i : -1);
    __syncthreads();
    const int all = OfInts(ints).Sum(items);
    if (thread == 0) right &= all == 508 * 509 / 2 - 3;

    for (int i = 0; i < ITEMS; ++i) items[i] = thread * ITEMS + i;
    StoreVectors().Store(many, items);
    __syncthreads();
    Striped().Load(many, others);
    for (int i = 0; i < ITEMS; ++i) right &= others[i] == i * THREADS + thread;
    Vectors().Load(many, others);
    for (int i = 0; i < ITEMS; ++i) right &= others[i] == items[i];
    Turned(turned).Load(many, others);
    for (int i = 0; i < ITEMS; ++i) right &= others[i] == items[i];
    for (int& each : items) each *= 2;
    StoreTurned(store_turned).Store(many, items);
    __syncthreads();
    Direct().Load(many, others);
    for (int i = 0; i < ITEMS; ++i) right &= others[i] == 2 * (thread * ITEMS + i);
    output[thread] = right;
}

extern "C" void feature(int* output, int n) {
    int *many, *of_few;
    cudaMalloc(&many, THREADS * ITEMS * sizeof(int));
    cudaMalloc(&of_few, sizeof(int));
    kernel<<<1, dim3(16, 4)>>>(output, many);
    line<<<1, n>>>(output, many);
    few<<<1, 48>>>(of_few);
    cudaMemcpy(output, of_few, sizeof(int), cudaMemcpyDeviceToDevice);
    cudaFree(many);
    cudaFree(of_few);
}
