// Language: structures and classes as kernel parameters, with methods and operators

struct Vector {
    float x, y;
    __host__ __device__ Vector operator+(Vector other) const { return {x + other.x, y + other.y}; }
    __host__ __device__ float length() const { return sqrtf(x * x + y * y); }
};
template <class T, int N>
struct Array {
    T values[N];
    __host__ __device__ T& operator[](int i) { return values[i]; }
};
// 16 bytes, in an array whose elements begin at multiples of 8 only.
struct Pair {
    long long first, second;
};
struct Named {
    int name;
    Pair pair;
};

__global__ void kernel(int* output, Vector a, Array<int, 3> array) {
    __shared__ Named pairs[64];
    const int t = threadIdx.x;
    pairs[t].pair = Pair{t, 2 * t};
    const Pair pair = pairs[t].pair;
    Vector b{1.0f, 2.0f};
    array[1] = 5;
    output[t] = (a + b).length() == 5.0f && array[0] + array[1] + array[2] == 9 &&
                pair.first + pair.second == 3 * t;
}

extern "C" void feature(int* output, int n) {
    kernel<<<1, n>>>(output, Vector{2.0f, 2.0f}, Array<int, 3>{{1, 2, 3}});
}
