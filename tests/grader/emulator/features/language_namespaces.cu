// Language: kernels in namespaces, through function pointers, also in structures and arrays

namespace outer::inner {
template <class T>
__global__ void first(T* output) { output[threadIdx.x] = 1; }
}  // namespace outer::inner
struct Kernels {
    void (*pointer)(int*);
};
__global__ void add(int* output) { output[threadIdx.x] += 1; }
__global__ void subtract(int* output) { output[threadIdx.x] -= 1; }

extern "C" void feature(int* output, int n) {
    ::outer::inner::first<int><<<1, n>>>(output);
    Kernels kernels{add};
    Kernels* pointer = &kernels;
    void (*table[])(int*) = {subtract, add};
    kernels.pointer<<<1, n>>>(output);
    table[0]<<<1, n>>>(output);
    pointer->pointer<<<1, n>>>(output);
    (*table[0])<<<1, n>>>(output);
}
