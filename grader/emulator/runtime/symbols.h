// The variables in the executable's own symbol table: the bytes of each __shared__ array in the
// thread-local segment, and the addresses of __device__ and __constant__ variables (internal to the
// observation half).
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

// Sorted by address, without the runtime's own variables.
const std::vector<Variable>& shared_variables();
// The flag that the compiler adds to a __shared__ variable with a constructor, for having run.
const std::vector<Variable>& shared_guards();
const std::vector<Variable>& device_variables();
// One more that isn't in the symbol table, for host code from nvcc.
void add_device_variable(const Variable& variable);

// The symbol of the function at this address, or ""; the address of the function of this symbol, or
// null.
const char* symbol_of(const void* function);
const void* function_of(const char* symbol);

// The most threads of a block of this kernel, by its __launch_bounds__; 0: it has none.
unsigned launch_bounds(const void* kernel);

// "tile" of "void transpose<32>(float*)::tile", in a buffer of the caller's.
const char* plain_name(char (&text)[120], const char* symbol);

// "transpose<32>" of "void transpose<32>(float*)".
const char* function_name(char (&text)[120], const char* symbol);

// The student's own writable data, without the runtime's.
bool in_student_data(Address a, std::size_t bytes);

// False: the build doesn't distinguish __device__ variables from the host's.
bool device_variables_are_known();

void read_symbols();

}  // namespace warpgrade
