// Types: char1 ... double4 and their make_ functions, with CUDA's sizes and alignments

static_assert(sizeof(float3) == 12 && alignof(float3) == 4, "");
static_assert(sizeof(float4) == 16 && alignof(float4) == 16, "");
static_assert(sizeof(uchar4) == 4 && alignof(uchar4) == 4, "");
static_assert(sizeof(short2) == 4 && alignof(double2) == 16 && sizeof(longlong2) == 16, "");

__global__ void kernel(int* output, float4* four) {
    const float4 v = four[threadIdx.x];
    const int2 pair = make_int2(3, 4);
    const uchar4 bytes = make_uchar4(1, 2, 3, 255);
    const double2 d = make_double2(0.5, 1.5);
    const uint3 u = make_uint3(1, 2, 3);
    const ushort1 s = make_ushort1(9);
    output[threadIdx.x] = v.x + v.y + v.z + v.w == 10.0f && pair.x * pair.y == 12 && bytes.w == 255 &&
                          d.x + d.y == 2.0 && u.z == 3 && s.x == 9;
}
__global__ void fill(float4* four) { four[threadIdx.x] = make_float4(1.0f, 2.0f, 3.0f, 4.0f); }

extern "C" void feature(int* output, int n) {
    float4* four = nullptr;
    cudaMalloc(&four, n * sizeof(float4));
    fill<<<1, n>>>(four);
    kernel<<<1, n>>>(output, four);
    cudaFree(four);
}
