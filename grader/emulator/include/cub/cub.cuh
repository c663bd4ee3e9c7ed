// CUB's collectives of a block and of a warp: BlockReduce, WarpReduce, BlockLoad and BlockStore.
//
// Each does what CUB's own does: its shuffles, barriers, accesses to shared memory and the size of
// its TempStorage. So a result that is read in a thread that doesn't have it, TempStorage that is
// used again without a barrier, and too much shared memory are found as in a kernel without CUB.
#ifndef WARPGRADE_CUB_H
#define WARPGRADE_CUB_H

#include <cuda_runtime.h>

#include "../cuda/functional"
#include "../warpgrade/ptx.h"

#define CUB_VERSION 300001

namespace cub {

// Before its third version, CUB had operators of its own.
typedef ::std::plus<> Sum;
typedef ::cuda::maximum<> Max;
typedef ::cuda::minimum<> Min;

enum BlockReduceAlgorithm {
    BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
    BLOCK_REDUCE_RAKING,
    BLOCK_REDUCE_WARP_REDUCTIONS
};
enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT,
    BLOCK_LOAD_STRIPED,
    BLOCK_LOAD_VECTORIZE,
    BLOCK_LOAD_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};
enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT,
    BLOCK_STORE_STRIPED,
    BLOCK_STORE_VECTORIZE,
    BLOCK_STORE_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};

struct NullType {};

// Memory for a T, which a union or a __shared__ variable can have whatever T's constructors are.
template <class T>
struct Uninitialized {
    alignas(T) unsigned char storage[sizeof(T)];
    WARPGRADE_INLINE T& Alias() { return reinterpret_cast<T&>(*this); }
};

WARPGRADE_INLINE int RowMajorTid(int x, int y, int) {
    return (threadIdx.z * y + threadIdx.y) * x + threadIdx.x;
}
WARPGRADE_INLINE unsigned LaneId() { return RowMajorTid(blockDim.x, blockDim.y, blockDim.z) % 32; }

template <class T, int width = 32>
class WarpReduce {
    static_assert(width >= 1 && width <= 32 && (width & (width - 1)) == 0,
                  "CUB's reductions of warps whose size is no power of two are not modelled");

   public:
    typedef Uninitialized<NullType> TempStorage;
    WARPGRADE_INLINE explicit WarpReduce(TempStorage&) {}

    template <class Operation>
    WARPGRADE_INLINE T Reduce(T value, Operation operation, int valid = width) {
        const int lane = LaneId() % width;
        const unsigned members = width == 32 ? ~0u : ((1u << width % 32) - 1) << (LaneId() - lane);
        for (int delta = 1; delta < width; delta *= 2) {
            const bool is_valid = lane + delta < valid;
            const T other = of_lane(members, value, is_valid ? lane + delta : lane);
            if (is_valid) value = operation(value, other);
        }
        return value;
    }
    WARPGRADE_INLINE T Sum(T value, int valid = width) { return Reduce(value, cub::Sum(), valid); }
    WARPGRADE_INLINE T Max(T value, int valid = width) { return Reduce(value, cub::Max(), valid); }
    WARPGRADE_INLINE T Min(T value, int valid = width) { return Reduce(value, cub::Min(), valid); }

   private:
    WARPGRADE_INLINE static T of_lane(unsigned members, const T& value, int lane) {
        T result = value;
        for (size_t i = 0; i < sizeof(T); i += 8) {
            const size_t bytes = sizeof(T) - i < 8 ? sizeof(T) - i : 8;
            unsigned long long word = 0;
            ::warpgrade_move_bits(&word, reinterpret_cast<const char*>(&value) + i, bytes);
            word = __shfl_sync(members, word, lane, width);
            ::warpgrade_move_bits(reinterpret_cast<char*>(&result) + i, &word, bytes);
        }
        return result;
    }
};

template <class T, int x, BlockReduceAlgorithm algorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int y = 1, int z = 1>
class BlockReduce {
    static_assert(algorithm == BLOCK_REDUCE_WARP_REDUCTIONS,
                  "CUB's reductions by raking are not modelled");
    static constexpr int threads = x * y * z, warps = (threads + 31) / 32;
    static constexpr int width = threads < 32 ? threads : 32;
    typedef cub::WarpReduce<T, width> OfWarp;
    struct Partial {
        typename OfWarp::TempStorage of_warps[warps];
        T aggregates[warps];
        T prefix;
    };
    Partial& partial;

    WARPGRADE_INLINE static Partial& of_its_own() {
        __shared__ Uninitialized<Partial> storage;
        return storage.Alias();
    }

   public:
    typedef Uninitialized<Partial> TempStorage;
    WARPGRADE_INLINE BlockReduce() : partial(of_its_own()) {}
    WARPGRADE_INLINE explicit BlockReduce(TempStorage& storage) : partial(storage.Alias()) {}

    // Thread 0 has the result, the others what their warps leave them with.
    template <class Operation>
    WARPGRADE_INLINE T Reduce(T value, Operation operation, int valid = threads) {
        const int thread = RowMajorTid(x, y, z), warp = thread / 32;
        const int left = valid - warp * width;
        value = OfWarp(partial.of_warps[warp]).Reduce(value, operation, left < width ? left : width);
        if (thread % 32 == 0) partial.aggregates[warp] = value;
        __syncthreads();
        if (thread == 0)
            for (int each = 1; each < warps && each * width < valid; ++each) {
                const T other = partial.aggregates[each];
                value = operation(value, other);
            }
        return value;
    }
    template <int count, class Operation>
    WARPGRADE_INLINE T Reduce(T (&values)[count], Operation operation) {
        T value = values[0];
        for (int i = 1; i < count; ++i) value = operation(value, values[i]);
        return Reduce(value, operation);
    }
    WARPGRADE_INLINE T Sum(T value, int valid = threads) { return Reduce(value, cub::Sum(), valid); }
    template <int count>
    WARPGRADE_INLINE T Sum(T (&values)[count]) {
        return Reduce(values, cub::Sum());
    }
};

// Element i of a thread's items: neighbours are its own (blocked), or those of other threads
// (striped). In shared memory, rows of 32 are one further apart where that saves bank conflicts.
template <class T, int threads, int count>
struct Tile {
    static constexpr bool is_padded = count > 4 && (count & (count - 1)) == 0;
    struct alignas(16) Shared {
        T items[threads * count + (is_padded ? threads * count / 32 : 0)];
    };
    WARPGRADE_INLINE static int blocked(int thread, int i) { return thread * count + i; }
    WARPGRADE_INLINE static int striped(int thread, int i) { return i * threads + thread; }
    WARPGRADE_INLINE static int padded(int place) { return place + (is_padded ? place / 32 : 0); }

    // From striped to blocked, or the other way.
    WARPGRADE_INLINE static void exchange(Shared& shared, int thread, T (&items)[count], bool to_blocked) {
        for (int i = 0; i < count; ++i)
            shared.items[padded(to_blocked ? striped(thread, i) : blocked(thread, i))] = items[i];
        __syncthreads();
        for (int i = 0; i < count; ++i)
            items[i] = shared.items[padded(to_blocked ? blocked(thread, i) : striped(thread, i))];
    }
    // Vectors of up to four words, each of which is one access.
    typedef ::std::conditional_t<
        alignof(T) % 4 == 0, unsigned,
        ::std::conditional_t<alignof(T) % 2 == 0, unsigned short, unsigned char>>
        Word;
    static constexpr int words = count * sizeof(T) / sizeof(Word);
    static constexpr int width = words % 4 == 0 ? 4 : words % 2 == 0 ? 2 : 1;
    typedef typename ::warpgrade::ptx::VectorOf<Word, width>::type Vector;
    static constexpr int vectors = words / width;
    WARPGRADE_INLINE static bool is_aligned(const void* p) {
        return reinterpret_cast<size_t>(p) % alignof(Vector) == 0;
    }
};

template <class T, int x, int count, BlockLoadAlgorithm algorithm = BLOCK_LOAD_DIRECT, int y = 1, int z = 1>
class BlockLoad {
    static_assert(algorithm <= BLOCK_LOAD_TRANSPOSE, "CUB's loads transposed by warps are not modelled");
    typedef cub::Tile<T, x * y * z, count> Tile;
    static constexpr bool is_exchanged = algorithm == BLOCK_LOAD_TRANSPOSE;
    typedef ::std::conditional_t<is_exchanged, typename Tile::Shared, NullType> Shared;
    Shared& shared;

    WARPGRADE_INLINE static Shared& of_its_own() {
        __shared__ Uninitialized<Shared> storage;
        return storage.Alias();
    }

   public:
    typedef Uninitialized<Shared> TempStorage;
    WARPGRADE_INLINE BlockLoad() : shared(of_its_own()) {}
    WARPGRADE_INLINE explicit BlockLoad(TempStorage& storage) : shared(storage.Alias()) {}

    template <class From>
    WARPGRADE_INLINE void Load(From from, T (&items)[count]) {
        if constexpr (algorithm == BLOCK_LOAD_VECTORIZE && ::std::is_pointer_v<From>) {
            if (Tile::is_aligned(from)) {
                auto vectors = reinterpret_cast<const typename Tile::Vector*>(from);
                vectors += RowMajorTid(x, y, z) * Tile::vectors;
                for (int i = 0; i < Tile::vectors; ++i) {
                    const typename Tile::Vector vector = vectors[i];
                    ::warpgrade_move_bits(reinterpret_cast<char*>(items) + i * sizeof vector, &vector,
                                          sizeof vector);
                }
                return;
            }
        }
        Load(from, items, x * y * z * count);
    }
    template <class From>
    WARPGRADE_INLINE void Load(From from, T (&items)[count], int valid) {
        const int thread = RowMajorTid(x, y, z);
        constexpr bool is_striped = is_exchanged || algorithm == BLOCK_LOAD_STRIPED;
        for (int i = 0; i < count; ++i) {
            const int place = is_striped ? Tile::striped(thread, i) : Tile::blocked(thread, i);
            if (place < valid) items[i] = from[place];
        }
        if constexpr (is_exchanged) Tile::exchange(shared, thread, items, true);
    }
    template <class From, class Default>
    WARPGRADE_INLINE void Load(From from, T (&items)[count], int valid, Default otherwise) {
        for (T& each : items) each = otherwise;
        Load(from, items, valid);
    }
};

template <class T, int x, int count, BlockStoreAlgorithm algorithm = BLOCK_STORE_DIRECT, int y = 1, int z = 1>
class BlockStore {
    static_assert(algorithm <= BLOCK_STORE_TRANSPOSE, "CUB's stores transposed by warps are not modelled");
    typedef cub::Tile<T, x * y * z, count> Tile;
    static constexpr bool is_exchanged = algorithm == BLOCK_STORE_TRANSPOSE;
    struct Exchanged : Tile::Shared {
        volatile int valid;
    };
    typedef ::std::conditional_t<is_exchanged, Exchanged, NullType> Shared;
    Shared& shared;

    WARPGRADE_INLINE static Shared& of_its_own() {
        __shared__ Uninitialized<Shared> storage;
        return storage.Alias();
    }

   public:
    typedef Uninitialized<Shared> TempStorage;
    WARPGRADE_INLINE BlockStore() : shared(of_its_own()) {}
    WARPGRADE_INLINE explicit BlockStore(TempStorage& storage) : shared(storage.Alias()) {}

    template <class To>
    WARPGRADE_INLINE void Store(To to, T (&items)[count]) {
        const int thread = RowMajorTid(x, y, z);
        if constexpr (algorithm == BLOCK_STORE_VECTORIZE && ::std::is_pointer_v<To>) {
            if (Tile::is_aligned(to)) {
                auto vectors = reinterpret_cast<typename Tile::Vector*>(to) + thread * Tile::vectors;
                for (int i = 0; i < Tile::vectors; ++i) {
                    typename Tile::Vector vector;
                    ::warpgrade_move_bits(&vector, reinterpret_cast<char*>(items) + i * sizeof vector,
                                          sizeof vector);
                    vectors[i] = vector;
                }
                return;
            }
        }
        if constexpr (is_exchanged) Tile::exchange(shared, thread, items, false);
        store(to, items, x * y * z * count);
    }
    template <class To>
    WARPGRADE_INLINE void Store(To to, T (&items)[count], int valid) {
        if constexpr (is_exchanged) {
            const int thread = RowMajorTid(x, y, z);
            Tile::exchange(shared, thread, items, false);
            if (thread == 0) shared.valid = valid;
            __syncthreads();
            valid = shared.valid;
        }
        store(to, items, valid);
    }

   private:
    template <class To>
    WARPGRADE_INLINE static void store(To to, T (&items)[count], int valid) {
        constexpr bool is_striped = is_exchanged || algorithm == BLOCK_STORE_STRIPED;
        for (int i = 0; i < count; ++i) {
            const int thread = RowMajorTid(x, y, z);
            const int place = is_striped ? Tile::striped(thread, i) : Tile::blocked(thread, i);
            if (place < valid) to[place] = items[i];
        }
    }
};

}  // namespace cub

#endif
