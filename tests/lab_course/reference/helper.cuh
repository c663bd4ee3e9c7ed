#pragma once
#include <cuda_fp16.h>

__device__ inline float scaled(float x) {
    // BEGIN SOLUTION
    //| // TODO: return 2 * x + 1
    //| return x;
    return 2.0f * x + 1.0f;
    // END SOLUTION
}

template <typename T>
__global__ void scale_kernel(const T* x, T* out, int n);
