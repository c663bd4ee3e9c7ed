// Language: launches whose chevrons are apart, `kernel << <grid, block >> >(...)`, as nvcc takes them

__global__ void kernel(int* output, int value) { output[threadIdx.x] = value; }

extern "C" void feature(int* output, int n) {
    kernel << <1, n>> > (output, 64 >> 6);
}
