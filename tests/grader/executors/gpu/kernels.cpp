// Kernels of the tests. A program or a thread is nothing here: one call does all of a grid.

#include <cstdint>
#include <cstring>

#define PARAMETERS(kernel, ...) extern const unsigned kernel##_parameters[] = {__VA_ARGS__, 0, 0}

template <typename Value>
static Value& given(void** parameters, int number) {
    return *static_cast<Value*>(parameters[number]);
}

extern "C" {

// out[i] = in[i] + value
PARAMETERS(add, 0, 8, 8, 8, 16, 4, 20, 4);
void add(void** parameters, const unsigned*, const unsigned*) {
    const float* in = given<const float*>(parameters, 0);
    float* out = given<float*>(parameters, 1);
    const float value = given<float>(parameters, 3);
    for (int i = 0; i < given<int>(parameters, 2); ++i) out[i] = in[i] + value;
}

// What scalars of several sizes came to, and the grid.
PARAMETERS(scalars, 0, 8, 8, 1, 10, 2, 12, 4, 16, 8, 24, 8);
void scalars(void** parameters, const unsigned* grid, const unsigned* block) {
    double* out = given<double*>(parameters, 0);
    *out++ = given<std::int8_t>(parameters, 1);
    *out++ = given<std::int16_t>(parameters, 2);
    *out++ = given<std::int32_t>(parameters, 3);
    *out++ = static_cast<double>(given<std::int64_t>(parameters, 4));
    *out++ = given<double>(parameters, 5);
    for (int axis = 0; axis < 3; ++axis) *out++ = grid[axis];
    for (int axis = 0; axis < 3; ++axis) *out++ = block[axis];
}

// Triton hands over two scratch pointers behind its parameters. Is there memory? Then it is used.
PARAMETERS(scratch, 0, 8, 8, 4, 16, 8, 24, 8);
void scratch(void** parameters, const unsigned*, const unsigned*) {
    double* out = given<double*>(parameters, 0);
    for (int number = 0; number < 2; ++number) {
        char* memory = given<char*>(parameters, 2 + number);
        out[number] = memory != nullptr;
        if (memory) std::memset(memory, 1, given<int>(parameters, 1));
    }
}

// The bytes of a tensor descriptor, and the sizes and strides behind it.
PARAMETERS(describe, 0, 8, 64, 128, 192, 4, 196, 4, 200, 8, 208, 8);
void describe(void** parameters, const unsigned*, const unsigned*) {
    char* out = given<char*>(parameters, 0);
    std::memcpy(out, parameters[1], 128);
    const std::int64_t rest[] = {given<int>(parameters, 2), given<int>(parameters, 3),
                                 given<std::int64_t>(parameters, 4),
                                 given<std::int64_t>(parameters, 5)};
    std::memcpy(out + 128, rest, sizeof rest);
}

// What comes behind a pointer, as bytes.
PARAMETERS(taken_apart, 0, 8, 8, 72);
void taken_apart(void** parameters, const unsigned*, const unsigned*) {
    std::memcpy(given<char*>(parameters, 0), parameters[1], 72);
}

// Behind a structure in memory: struct { const float* in; std::int64_t n; float* out; }.
PARAMETERS(follow, 0, 8);
void follow(void** parameters, const unsigned*, const unsigned*) {
    const std::int64_t* fields = given<const std::int64_t*>(parameters, 0);
    std::memcpy(reinterpret_cast<void*>(fields[2]), reinterpret_cast<void*>(fields[0]),
                static_cast<std::size_t>(fields[1]) * sizeof(float));
}

// *out = *memory + 1, and that is written back.
PARAMETERS(count, 0, 8, 8, 8);
void count(void** parameters, const unsigned*, const unsigned*) {
    float* memory = given<float*>(parameters, 0);
    *given<float*>(parameters, 1) = *memory += 1;
}

float counter = 100;
float factors[3] = {1, 2, 3};

// *out = the sum of the constants and of how often this was called.
PARAMETERS(globals, 0, 8);
void globals(void** parameters, const unsigned*, const unsigned*) {
    *given<float*>(parameters, 0) = ++counter + factors[0] + factors[1] + factors[2];
}

PARAMETERS(breaks, 0, 8);
void breaks(void**, const unsigned*, const unsigned*) { __builtin_trap(); }

PARAMETERS(nothing, 0, 8, 8, 8);
void nothing(void**, const unsigned*, const unsigned*) {}
}
