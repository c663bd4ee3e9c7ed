// Transpose beyond the lesson: output[col, row] = input[row, col], as fast as a copy.
//
// What limits it. Nothing is computed, so the floor is memory's time: each element read once and
// written once. The lesson's tile moves one float for each thread and instruction, 4 bytes in
// flight for each; a copy moves 16. What keeps memory busy is bytes under way, so both sides here
// move 16 bytes at a time, and each thread starts all its loads before it uses the first.
//
// 16 bytes are VALUES elements of a row, 4 floats or 8 bfloat16: a *chunk*. What is written is a
// chunk of a column. So each thread brings VALUES rows of a chunk, turns that small square in its
// registers, and the squares change places through shared memory, a chunk at a time:
//
//   input   . . . . .      a thread's square,        shared memory: 16 x 16 squares,
//           . [ ][ ].      turned in registers       rows of 256 bytes are rows of output
//           . [ ][ ].
//
// A column of squares would lie on the same banks. So in each row of squares, square i is kept at
// place i ^ j, where j is its row: eight threads that write neighbours down a column, or read
// neighbours along a row, then meet 8 different groups of 4 banks.
//
// Rows that don't begin on 16 bytes (an odd number of columns or of rows) can't be read or written
// like this. Then the blocks take *windows* of 16 chunks that begin on 16 bytes, in every row of
// input at another column, and keep them as they come. What is written are chunks that begin on 16
// bytes too, in every row of output at another element; their elements are picked one by one from
// shared memory, which has time for it. A window shows at least 15 chunks' worth of the columns
// wanted, so a block's tile is 15 chunks wide and high.

// What each trick bought, in speed over a copy of 8192 x 8192 (drafts of these kernels, one H100):
//
//                                                            float32  bfloat16
//   an element per thread, no tile                              0.16      0.08
//   a tile in shared memory                                     0.54      0.46
//   its rows padded                                             0.94      0.78
//   loads of 16 bytes, elements stored one by one to the tile   0.84      0.82
//   16 bytes everywhere, squares turned in registers            0.97      0.97

#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>

constexpr int SIDE = 16;              // chunks in a row of a tile, and squares in a column
constexpr int THREADS = SIDE * SIDE;  // of a block

// Says where a CUDA call failed, and why. A kernel launch returns nothing; it leaves its error to
// cudaPeekAtLastError(), which keeps it for whoever called us (cudaGetLastError() would clear it).
#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

// a / b rounded up, for a, b >= 1; (a + b - 1) / b would overflow for a near 2^31.
__host__ __device__ constexpr int ceil_div(int a, int b) { return (a - 1) / b + 1; }

// Where element (row, col) of a matrix lies. In size_t: rows * cols can be beyond an int.
__device__ size_t at(int row, int col, int cols) { return static_cast<size_t>(row) * cols + col; }

template <typename T>
constexpr int VALUES = 16 / sizeof(T);  // elements of a chunk

// --- rows that begin on 16 bytes -----------------------------------------------------------------

// A square of elements, a chunk for each row, with rows and columns exchanged.
__device__ __forceinline__ void turn(uint4 (&square)[4]) {  // 4 x 4 of 32 bits
    const uint4 a = square[0], b = square[1], c = square[2], d = square[3];
    square[0] = make_uint4(a.x, b.x, c.x, d.x);
    square[1] = make_uint4(a.y, b.y, c.y, d.y);
    square[2] = make_uint4(a.z, b.z, c.z, d.z);
    square[3] = make_uint4(a.w, b.w, c.w, d.w);
}

// Of four pairs of two rows each, the lower (0x5410) or the upper elements (0x7632).
__device__ __forceinline__ uint4 pair_up(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e,
                                         unsigned f, unsigned g, unsigned h, unsigned which) {
    return make_uint4(__byte_perm(a, b, which), __byte_perm(c, d, which),
                      __byte_perm(e, f, which), __byte_perm(g, h, which));
}

__device__ __forceinline__ void turn(uint4 (&s)[8]) {  // 8 x 8 of 16 bits
    const uint4 r0 = s[0], r1 = s[1], r2 = s[2], r3 = s[3];
    const uint4 r4 = s[4], r5 = s[5], r6 = s[6], r7 = s[7];
    s[0] = pair_up(r0.x, r1.x, r2.x, r3.x, r4.x, r5.x, r6.x, r7.x, 0x5410);
    s[1] = pair_up(r0.x, r1.x, r2.x, r3.x, r4.x, r5.x, r6.x, r7.x, 0x7632);
    s[2] = pair_up(r0.y, r1.y, r2.y, r3.y, r4.y, r5.y, r6.y, r7.y, 0x5410);
    s[3] = pair_up(r0.y, r1.y, r2.y, r3.y, r4.y, r5.y, r6.y, r7.y, 0x7632);
    s[4] = pair_up(r0.z, r1.z, r2.z, r3.z, r4.z, r5.z, r6.z, r7.z, 0x5410);
    s[5] = pair_up(r0.z, r1.z, r2.z, r3.z, r4.z, r5.z, r6.z, r7.z, 0x7632);
    s[6] = pair_up(r0.w, r1.w, r2.w, r3.w, r4.w, r5.w, r6.w, r7.w, 0x5410);
    s[7] = pair_up(r0.w, r1.w, r2.w, r3.w, r4.w, r5.w, r6.w, r7.w, 0x7632);
}

// rows and cols are multiples of VALUES, so each chunk of a tile exists, or doesn't.
template <typename T>
__global__ void __launch_bounds__(THREADS)
transpose_squares_kernel(const T* __restrict__ input, T* __restrict__ output, int rows, int cols) {
    constexpr int V = VALUES<T>;
    constexpr int TILE = SIDE * V;
    __shared__ uint4 tile[TILE][SIDE];
    // Neighbouring blocks are above each other: together they write longer stretches of output.
    const int tiles_down = ceil_div(rows, TILE);
    const int first_row = blockIdx.x % tiles_down * TILE;
    const int first_col = blockIdx.x / tiles_down * TILE;
    const int i = threadIdx.x / SIDE;
    const int j = threadIdx.x % SIDE;

    const int row = first_row + i * V;
    const int col = first_col + j * V;
    if (row < rows && col < cols) {
        uint4 square[V];
        #pragma unroll
        for (int k = 0; k < V; ++k)
            square[k] = *reinterpret_cast<const uint4*>(input + at(row + k, col, cols));
        turn(square);
        #pragma unroll
        for (int k = 0; k < V; ++k) tile[j * V + k][i ^ j] = square[k];
    }
    __syncthreads();

    const int out_col = first_row + j * V;
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        const int line = i + k * SIDE;
        const int out_row = first_col + line;
        if (out_row < cols && out_col < rows)
            *reinterpret_cast<uint4*>(output + at(out_row, out_col, rows)) =
                tile[line][j ^ (line / V)];
    }
}

// --- rows that begin anywhere --------------------------------------------------------------------

// How many elements before p the last 16-byte boundary is.
template <typename T>
__device__ int past_boundary(const T* p) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(p) % 16 / sizeof(T));
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
transpose_windows_kernel(const T* __restrict__ input, T* __restrict__ output, int rows, int cols) {
    constexpr int V = VALUES<T>;
    constexpr int TILE = (SIDE - 1) * V;
    __shared__ uint4 windows[SIDE * V][SIDE];
    const int tiles_down = ceil_div(rows, TILE);
    const int first_row = blockIdx.x % tiles_down * TILE;
    const int first_col = blockIdx.x / tiles_down * TILE;
    const int cols_here = min(TILE, cols - first_col);
    const T* const end = input + at(rows, 0, cols);

    // Element (first_row + line, first_col + col) is number skew(line) + col of its window.
    const int skew_0 = past_boundary(input + at(first_row, first_col, cols));
    const auto skew = [&](int line) { return (skew_0 + line * (cols % V)) % V; };
    const auto swizzled = [](int line, int chunk) { return chunk ^ (line / V % 8); };

    uint4 chunks[V];
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        const int line = threadIdx.x / SIDE + k * SIDE;
        const int chunk = threadIdx.x % SIDE;
        if (first_row + line >= rows || chunk * V >= skew(line) + cols_here) continue;
        const T* const from = input + at(first_row + line, first_col, cols) - skew(line) + chunk * V;
        if (from >= input && from + V <= end) {
            chunks[k] = *reinterpret_cast<const uint4*>(from);
        } else {  // the matrix begins or ends within
            T* const values = reinterpret_cast<T*>(&chunks[k]);
            #pragma unroll
            for (int e = 0; e < V; ++e) values[e] = from + e >= input && from + e < end ? from[e] : T{};
        }
    }
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        const int line = threadIdx.x / SIDE + k * SIDE;
        const int chunk = threadIdx.x % SIDE;
        if (first_row + line >= rows || chunk * V >= skew(line) + cols_here) continue;
        windows[line][swizzled(line, chunk)] = chunks[k];
    }
    __syncthreads();

    const auto element = [&](int line, int col) {
        const int place = skew(line) + col;
        return reinterpret_cast<const T*>(&windows[line][swizzled(line, place / V)])[place % V];
    };
    // Eight threads write neighbouring chunks of a row, four such rows are a warp's: of what they
    // pick, eight lie on different groups of banks, and four are neighbours.
    #pragma unroll
    for (int k = 0; k < V; ++k) {
        const int col = k / 2 * (THREADS / 8) + threadIdx.x / 8;
        const int chunk = k % 2 * 8 + threadIdx.x % 8;
        if (col >= cols_here) continue;
        T* const out_row = output + at(first_col + col, 0, rows);
        // Chunks begin `shift` elements into the tile; what is before is the last tile's.
        const int shift = (V - past_boundary(out_row + first_row)) % V;
        int line = shift + chunk * V;
        int count = min(V, rows - first_row - line);
        if (chunk == SIDE - 1) {  // none of this tile; but the first tile has a beginning to write
            line = 0;
            count = first_row == 0 ? min(shift, rows) : 0;
        }
        T* const to = out_row + first_row + line;
        if (count == V) {
            uint4 values;
            #pragma unroll
            for (int e = 0; e < V; ++e) reinterpret_cast<T*>(&values)[e] = element(line + e, col);
            *reinterpret_cast<uint4*>(to) = values;
        } else {
            for (int e = 0; e < count; ++e) to[e] = element(line + e, col);
        }
    }
}

// --- the entries ---------------------------------------------------------------------------------

template <typename T>
void transpose(const T* input, T* output, int rows, int cols) {
    const uintptr_t addresses =
        reinterpret_cast<uintptr_t>(input) | reinterpret_cast<uintptr_t>(output);
    constexpr int V = VALUES<T>;
    // Numbered along the grid's x axis alone, which may have 2^31 - 1 blocks.
    if (addresses % 16 == 0 && rows % V == 0 && cols % V == 0) {
        const unsigned tiles = static_cast<unsigned>(ceil_div(rows, SIDE * V)) * ceil_div(cols, SIDE * V);
        transpose_squares_kernel<T><<<tiles, THREADS>>>(input, output, rows, cols);
    } else {
        constexpr int TILE = (SIDE - 1) * V;
        const unsigned tiles = static_cast<unsigned>(ceil_div(rows, TILE)) * ceil_div(cols, TILE);
        transpose_windows_kernel<T><<<tiles, THREADS>>>(input, output, rows, cols);
    }
    CHECK(cudaPeekAtLastError());
}

// input: rows * cols floats in device memory, row after row; output: cols * rows; rows, cols >= 1.
extern "C" void transpose_v4(const float* input, float* output, int rows, int cols) {
    transpose(input, output, rows, cols);
}

// The rungs below ask for less of the same.
extern "C" void transpose_v3(const float* input, float* output, int rows, int cols) {
    transpose(input, output, rows, cols);
}
extern "C" void transpose_v2(const float* input, float* output, int rows, int cols) {
    transpose(input, output, rows, cols);
}
extern "C" void transpose_v1(const float* input, float* output, int rows, int cols) {
    transpose(input, output, rows, cols);
}

// The same of elements of 16 bits, whatever they mean: bfloat16, half.
extern "C" void transpose_v4_16bit(const uint16_t* input, uint16_t* output, int rows, int cols) {
    transpose(input, output, rows, cols);
}
