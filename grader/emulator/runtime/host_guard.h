// Host code of the submission may only store to its own memory (internal to the observation half).
#pragma once
#include <cstddef>

#include "core.h"

namespace warpgrade {

void initialise_host_guard();
void add_host_argument(const char* name, Address a, std::size_t bytes, bool writable);
void forget_host_arguments();

// An access of instrumented host code. Ends the entry if it is not allowed.
void check_host_access(Address a, std::size_t bytes, bool store, Address pc);

// Ends the entry after a fatal finding in host code; outside an entry, the process.
[[noreturn]] void abandon_from_host();

// The host memory at an address, for a sentence: "host memory from malloc or new". Null: unknown.
const char* describe_host(Address a);

// The bounds of the heap of the student's code (student_heap.cpp).
bool in_student_heap(Address a, std::size_t bytes);

}  // namespace warpgrade
