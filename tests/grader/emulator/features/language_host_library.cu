// Language: the C++ library in host code: vector, string, algorithm, iostream, mutex, charconv, exceptions

#include <algorithm>
#include <charconv>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

__global__ void kernel(int* output, const int* values) { output[threadIdx.x] = values[threadIdx.x]; }

static int parsed(const std::string& text) {
    if (text.empty()) throw std::invalid_argument("empty");
    return std::stoi(text);
}

static std::once_flag flag;
static std::mutex mutex;
static std::recursive_mutex outer;

static int found_once() {
    static int found = 0;
    std::lock_guard<std::recursive_mutex> outside(outer);
    std::lock_guard<std::mutex> inside(mutex);
    std::call_once(flag, [](int by) { found += by; }, 1);
    return found;
}

static int through_digits(int value) {
    char digits[12];
    const char* end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    int read = 0;
    std::from_chars(digits, end, read);
    return read;
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
    values[0] = through_digits(found_once());
    values[1] = *owned + found_once() - std::stoi(std::to_string(1u));
    std::sort(values.begin(), values.end());
    int* device = nullptr;
    cudaMalloc(&device, n * sizeof(int));
    cudaMemcpy(device, values.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    kernel<<<1, n>>>(output, device);
    cudaFree(device);
}
