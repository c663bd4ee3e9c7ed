// cuBLAS by name only: a file may declare handles and contain functions that nobody calls. These
// functions have no definition, so one that an entry reaches is refused by name (../objects.py).
//
// It includes what NVIDIA's header does, as far as it is here, since files rely on that.
#ifndef WARPGRADE_CUBLAS_V2_H
#define WARPGRADE_CUBLAS_V2_H
#include <stdint.h>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"
#include "driver_types.h"
#include "library_types.h"

typedef struct cublasContext* cublasHandle_t;
typedef cudaDataType cublasDataType_t;

typedef enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16,
} cublasStatus_t;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C } cublasOperation_t;
typedef enum { CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER } cublasFillMode_t;
typedef enum { CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT } cublasSideMode_t;
typedef enum { CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT } cublasDiagType_t;
typedef enum { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE } cublasPointerMode_t;
typedef enum {
    CUBLAS_DEFAULT_MATH = 0,
    CUBLAS_TENSOR_OP_MATH = 1,
    CUBLAS_PEDANTIC_MATH = 2,
    CUBLAS_TF32_TENSOR_OP_MATH = 3,
    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16,
} cublasMath_t;
typedef enum {
    CUBLAS_COMPUTE_16F = 64,
    CUBLAS_COMPUTE_16F_PEDANTIC = 65,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_32I = 72,
    CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77,
} cublasComputeType_t;
typedef enum { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 } cublasGemmAlgo_t;

extern "C" {

cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasGetVersion(cublasHandle_t handle, int* version);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode);
cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes);
cublasStatus_t cublasSetVector(int n, int element, const void* x, int x_step, void* y, int y_step);
cublasStatus_t cublasGetVector(int n, int element, const void* x, int x_step, void* y, int y_step);
cublasStatus_t cublasSetMatrix(int rows, int columns, int element, const void* a, int a_step,
                               void* b, int b_step);
cublasStatus_t cublasGetMatrix(int rows, int columns, int element, const void* a, int a_step,
                               void* b, int b_step);
const char* cublasGetStatusName(cublasStatus_t status);
const char* cublasGetStatusString(cublasStatus_t status);

#define WARPGRADE_CUBLAS(letter, lower, type)                                                      \
    cublasStatus_t cublas##letter##axpy(cublasHandle_t handle, int n, const type* alpha,           \
                                        const type* x, int x_step, type* y, int y_step);           \
    cublasStatus_t cublas##letter##scal(cublasHandle_t handle, int n, const type* alpha, type* x,  \
                                        int x_step);                                               \
    cublasStatus_t cublas##letter##copy(cublasHandle_t handle, int n, const type* x, int x_step,   \
                                        type* y, int y_step);                                      \
    cublasStatus_t cublas##letter##dot(cublasHandle_t handle, int n, const type* x, int x_step,    \
                                       const type* y, int y_step, type* result);                   \
    cublasStatus_t cublas##letter##nrm2(cublasHandle_t handle, int n, const type* x, int x_step,   \
                                        type* result);                                             \
    cublasStatus_t cublas##letter##asum(cublasHandle_t handle, int n, const type* x, int x_step,   \
                                        type* result);                                             \
    cublasStatus_t cublasI##lower##amax(cublasHandle_t handle, int n, const type* x, int x_step,   \
                                        int* result);                                              \
    cublasStatus_t cublasI##lower##amin(cublasHandle_t handle, int n, const type* x, int x_step,   \
                                        int* result);                                              \
    cublasStatus_t cublas##letter##gemv(cublasHandle_t handle, cublasOperation_t operation, int m, \
                                        int n, const type* alpha, const type* a, int a_step,       \
                                        const type* x, int x_step, const type* beta, type* y,      \
                                        int y_step);                                               \
    cublasStatus_t cublas##letter##geam(                                                           \
        cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b, int m, int n,       \
        const type* alpha, const type* a, int a_step, const type* beta, const type* b, int b_step, \
        type* c, int c_step);
WARPGRADE_CUBLAS(S, s, float)
WARPGRADE_CUBLAS(D, d, double)
#undef WARPGRADE_CUBLAS

#define WARPGRADE_CUBLAS_GEMM(letter, type)                                                        \
    cublasStatus_t cublas##letter##gemm(cublasHandle_t handle, cublasOperation_t of_a,             \
                                        cublasOperation_t of_b, int m, int n, int k,               \
                                        const type* alpha, const type* a, int a_step,              \
                                        const type* b, int b_step, const type* beta, type* c,      \
                                        int c_step);                                               \
    cublasStatus_t cublas##letter##gemmStridedBatched(                                             \
        cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b, int m, int n,       \
        int k, const type* alpha, const type* a, int a_step, long long a_batch, const type* b,     \
        int b_step, long long b_batch, const type* beta, type* c, int c_step, long long c_batch,   \
        int batches);                                                                              \
    cublasStatus_t cublas##letter##gemmBatched(                                                    \
        cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b, int m, int n,       \
        int k, const type* alpha, const type* const a[], int a_step, const type* const b[],        \
        int b_step, const type* beta, type* const c[], int c_step, int batches);
WARPGRADE_CUBLAS_GEMM(H, __half)
WARPGRADE_CUBLAS_GEMM(S, float)
WARPGRADE_CUBLAS_GEMM(D, double)
#undef WARPGRADE_CUBLAS_GEMM

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b,
                            int m, int n, int k, const void* alpha, const void* a,
                            cudaDataType a_type, int a_step, const void* b, cudaDataType b_type,
                            int b_step, const void* beta, void* c, cudaDataType c_type, int c_step,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm);
cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b, int m, int n, int k,
    const void* alpha, const void* a, cudaDataType a_type, int a_step, long long a_batch,
    const void* b, cudaDataType b_type, int b_step, long long b_batch, const void* beta, void* c,
    cudaDataType c_type, int c_step, long long c_batch, int batches, cublasComputeType_t compute,
    cublasGemmAlgo_t algorithm);

}  // extern "C"
#endif
