// What the drivers of this folder share: device memory with something in it, and an end.
//
// A driver calls the entries of one .cu file once each, on one case, so that a profiler sees one
// launch of each kernel (benchmarks/ncu_counters.py).

#pragma once

#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

inline void must(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    exit(EXIT_FAILURE);
}

// n floats of device memory: 0, 1, 2, ... modulo 17, divided by 4.
inline float* device_floats(size_t n) {
    std::vector<float> values(n);
    for (size_t i = 0; i < n; ++i) values[i] = i % 17 * 0.25f;
    float* floats = nullptr;
    must(cudaMalloc(&floats, n * sizeof(float)), "cudaMalloc");
    const size_t bytes = n * sizeof(float);
    must(cudaMemcpy(floats, values.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    return floats;
}

inline int finished() {
    must(cudaGetLastError(), "launch");
    must(cudaDeviceSynchronize(), "kernel");
    return EXIT_SUCCESS;
}
