// Language: dynamic shared memory, in functions, templates and at file scope, split and aligned

extern __shared__ float whole[];

template <class T>
struct Shared {
    __device__ static T* get() {
        extern __shared__ __align__(16) unsigned char bytes[];
        return reinterpret_cast<T*>(bytes);
    }
};
template <class T>
__global__ void kernel(T* output, int n) {
    extern __shared__ T values[];
    float* halves = (float*)&values[n];
    values[threadIdx.x] = threadIdx.x;
    halves[threadIdx.x] = threadIdx.x / 2.0f;
    __syncthreads();
    const int other = n - 1 - threadIdx.x;
    output[threadIdx.x] = values[other] == 2 * halves[other] && Shared<T>::get()[other] == other;
}
__global__ void file_scope(int* output, int n) {
    whole[threadIdx.x] = 1.0f;
    __syncthreads();
    output[threadIdx.x] *= whole[n - 1 - threadIdx.x];
}

extern "C" void feature(int* output, int n) {
    kernel<int><<<1, n, n*(sizeof(int) + sizeof(float))>>>(output, n);
    file_scope<<<1, n, n * sizeof(float)>>>(output, n);
}
