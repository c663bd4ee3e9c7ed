// Language: kernel templates, with given and with deduced arguments; overloads; default arguments

template <class T, int Step>
__global__ void given(T* output, T value, const T* unused) {
    __shared__ T shared[Step];
    if (threadIdx.x < Step) shared[threadIdx.x] = value;
    __syncthreads();
    output[threadIdx.x * Step] = shared[threadIdx.x % Step];
}
template <class T>
__global__ void deduced(T* output, int n) {
    output[2 * threadIdx.x + 1] += 1;
}
__global__ void overloaded(int* output, int) { output[2 * threadIdx.x + 1] = 0; }
__global__ void overloaded(float* output, int) { output[2 * threadIdx.x + 1] = 0.5f; }
__global__ void with_default(int* output, int add = 0) { output[threadIdx.x] += add; }

extern "C" void feature(int* output, int n) {
    n>0?given<int, 2><<<1, n / 2>>>(output, 1, 0):given<int, 4><<<1, n / 4>>>(output, 1, 0);
    overloaded<<<1, n / 2>>>(output, 3);
    deduced<<<1, n / 2>>>(output, n);
    with_default<<<1, n>>>(output);
}
