// Transposes that stop short of a rung of the ladder, or reach it in another way than
// reference/transpose.cu. All are right, where rows and cols are multiples of 32.
//
//   entry                   loads   stores   shared memory
//   transpose_rows          whole   strided  -            a thread per element, along rows
//   transpose_columns       strided whole    -            a thread per element, along columns
//   transpose_two_apart     half    strided  -            neighbouring threads two elements apart
//   transpose_unpadded      whole   whole    32 ways      a tile of 32 x 32
//   transpose_padded_below  whole   whole    32 ways      33 x 32: padding in the wrong dimension
//   transpose_padded_by_two whole   whole    2 ways       32 x 34
//   transpose_filled_down   whole   whole    32 ways      the conflicts are the stores'
//   transpose_swizzled      whole   whole    none         32 x 32, column c of row r at c ^ r
//   transpose_vectors       whole   whole    none         float4 from and to memory, 32 x 33

#include <cuda_runtime.h>

constexpr int TILE = 32;
constexpr int TILE_ROWS = 8;

__global__ void rows_kernel(const float* input, float* output, int rows, int cols) {
    const int col = blockIdx.x * TILE + threadIdx.x;
    const int row = blockIdx.y * TILE_ROWS + threadIdx.y;
    output[col * rows + row] = input[row * cols + col];
}

__global__ void columns_kernel(const float* input, float* output, int rows, int cols) {
    const int row = blockIdx.x * TILE + threadIdx.x;
    const int col = blockIdx.y * TILE_ROWS + threadIdx.y;
    output[col * rows + row] = input[row * cols + col];
}

__global__ void two_apart_kernel(const float* input, float* output, int rows, int cols) {
    const int row = blockIdx.y * TILE_ROWS + threadIdx.y;
    for (int first = 0; first < 2; ++first) {
        const int col = blockIdx.x * 2 * TILE + 2 * threadIdx.x + first;
        output[col * rows + row] = input[row * cols + col];
    }
}

template <int ROWS, int WIDTH>
__global__ void tile_kernel(const float* input, float* output, int rows, int cols) {
    __shared__ float tile[ROWS][WIDTH];
    const int first_row = blockIdx.y * TILE, first_col = blockIdx.x * TILE;
    for (int i = threadIdx.y; i < TILE; i += TILE_ROWS)
        tile[i][threadIdx.x] = input[(first_row + i) * cols + first_col + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < TILE; i += TILE_ROWS)
        output[(first_col + i) * rows + first_row + threadIdx.x] = tile[threadIdx.x][i];
}

__global__ void filled_down_kernel(const float* input, float* output, int rows, int cols) {
    __shared__ float tile[TILE][TILE];
    const int first_row = blockIdx.y * TILE, first_col = blockIdx.x * TILE;
    for (int i = threadIdx.y; i < TILE; i += TILE_ROWS)
        tile[threadIdx.x][i] = input[(first_row + i) * cols + first_col + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < TILE; i += TILE_ROWS)
        output[(first_col + i) * rows + first_row + threadIdx.x] = tile[i][threadIdx.x];
}

__global__ void swizzled_kernel(const float* input, float* output, int rows, int cols) {
    __shared__ float tile[TILE][TILE];
    const int first_row = blockIdx.y * TILE, first_col = blockIdx.x * TILE;
    for (int i = threadIdx.y; i < TILE; i += TILE_ROWS)
        tile[i][threadIdx.x ^ i] = input[(first_row + i) * cols + first_col + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < TILE; i += TILE_ROWS)
        output[(first_col + i) * rows + first_row + threadIdx.x] =
            tile[threadIdx.x][i ^ threadIdx.x];
}

// 8 x 32 threads: a thread moves four floats of a row at once.
__global__ void vectors_kernel(const float* input, float* output, int rows, int cols) {
    __shared__ float tile[TILE][TILE + 1];
    const int first_row = blockIdx.y * TILE, first_col = blockIdx.x * TILE;
    const int row = threadIdx.y, col = 4 * threadIdx.x;
    const float4 v =
        *reinterpret_cast<const float4*>(input + (first_row + row) * cols + first_col + col);
    tile[row][col] = v.x;
    tile[row][col + 1] = v.y;
    tile[row][col + 2] = v.z;
    tile[row][col + 3] = v.w;
    __syncthreads();
    *reinterpret_cast<float4*>(output + (first_col + row) * rows + first_row + col) = make_float4(
        tile[col][row], tile[col + 1][row], tile[col + 2][row], tile[col + 3][row]);
}

extern "C" void transpose_rows(const float* input, float* output, int rows, int cols) {
    rows_kernel<<<dim3(cols / TILE, rows / TILE_ROWS), dim3(TILE, TILE_ROWS)>>>(input, output, rows,
                                                                                cols);
}

extern "C" void transpose_columns(const float* input, float* output, int rows, int cols) {
    columns_kernel<<<dim3(rows / TILE, cols / TILE_ROWS), dim3(TILE, TILE_ROWS)>>>(input, output,
                                                                                   rows, cols);
}

extern "C" void transpose_two_apart(const float* input, float* output, int rows, int cols) {
    const dim3 grid(cols / (2 * TILE), rows / TILE_ROWS);
    two_apart_kernel<<<grid, dim3(TILE, TILE_ROWS)>>>(input, output, rows, cols);
}

extern "C" void transpose_unpadded(const float* input, float* output, int rows, int cols) {
    const dim3 grid(cols / TILE, rows / TILE);
    tile_kernel<TILE, TILE><<<grid, dim3(TILE, TILE_ROWS)>>>(input, output, rows, cols);
}

extern "C" void transpose_padded_below(const float* input, float* output, int rows, int cols) {
    const dim3 grid(cols / TILE, rows / TILE);
    tile_kernel<TILE + 1, TILE><<<grid, dim3(TILE, TILE_ROWS)>>>(input, output, rows, cols);
}

extern "C" void transpose_padded_by_two(const float* input, float* output, int rows, int cols) {
    const dim3 grid(cols / TILE, rows / TILE);
    tile_kernel<TILE, TILE + 2><<<grid, dim3(TILE, TILE_ROWS)>>>(input, output, rows, cols);
}

extern "C" void transpose_filled_down(const float* input, float* output, int rows, int cols) {
    const dim3 grid(cols / TILE, rows / TILE);
    filled_down_kernel<<<grid, dim3(TILE, TILE_ROWS)>>>(input, output, rows, cols);
}

extern "C" void transpose_swizzled(const float* input, float* output, int rows, int cols) {
    const dim3 grid(cols / TILE, rows / TILE);
    swizzled_kernel<<<grid, dim3(TILE, TILE_ROWS)>>>(input, output, rows, cols);
}

extern "C" void transpose_vectors(const float* input, float* output, int rows, int cols) {
    const dim3 grid(cols / TILE, rows / TILE);
    vectors_kernel<<<grid, dim3(TILE_ROWS, TILE)>>>(input, output, rows, cols);
}
