// What the executable's own symbol table says of its variables: which bytes of the thread-local
// segment are which __shared__ array, and where __device__ and __constant__ variables lie
// (internal to the observation half).
#pragma once
#include <cstddef>
#include <cstdint>

#include "core.h"

namespace warpgrade {

struct Variable {
    Address low;
    std::size_t bytes;
    const char* symbol;  // mangled
    bool constant;       // __constant__
};

// Sorted by address. Variables of the runtime itself are left out.
const std::vector<Variable>& shared_variables();
// What the compiler adds to a __shared__ variable of a class with a constructor: a flag that it
// ran.
const std::vector<Variable>& shared_guards();
const std::vector<Variable>& device_variables();
// One more, that the symbol table doesn't tell: of a program that nvcc made the host code of.
void add_device_variable(const Variable& variable);

// The symbol of the function at this address, or ""; the address of the function of this symbol, or
// null.
const char* symbol_of(const void* function);
const void* function_of(const char* symbol);

// "tile" of "void transpose<32>(float*)::tile", in a buffer of the caller's.
const char* plain_name(char (&text)[120], const char* symbol);

// "transpose<32>" of "void transpose<32>(float*)".
const char* function_name(char (&text)[120], const char* symbol);

// The student's own writable data, and nothing of the runtime's.
bool in_student_data(Address a, std::size_t bytes);

// False: the build does not tell __device__ variables from those of the host.
bool device_variables_are_known();

void read_symbols();

}  // namespace warpgrade
