// Language: the C++ library in host code: vector, string, algorithm, iostream, exceptions

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

__global__ void kernel(int* output, const int* values) { output[threadIdx.x] = values[threadIdx.x]; }

static int parsed(const std::string& text) {
    if (text.empty()) throw std::invalid_argument("empty");
    return std::stoi(text);
}

extern "C" void feature(int* output, int n) {
    std::vector<int> values(n);
    std::iota(values.begin(), values.end(), 0);
    std::transform(values.begin(), values.end(), values.begin(), [](int) { return 1; });
    std::map<std::string, int> named{{"one", parsed("1")}};
    auto owned = std::make_unique<int>(named.at("one"));
    try {
        parsed("");
        values[0] = 0;
    } catch (const std::invalid_argument& error) {
        std::cout << error.what() << std::endl;
    }
    values[1] = *owned;
    std::sort(values.begin(), values.end());
    int* device = nullptr;
    cudaMalloc(&device, n * sizeof(int));
    cudaMemcpy(device, values.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    kernel<<<1, n>>>(output, device);
    cudaFree(device);
}
