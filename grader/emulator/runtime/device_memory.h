// Device memory for the observation half: one shadow byte for each byte, and a name for each place
// (internal to the observation half).
//
// A byte of global memory is identified by its offset: first the arena (allocations, then mapped
// arguments), at a fixed address; behind it the executable's own image, for __device__ variables.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core.h"

namespace warpgrade {

// Two adjacent 32-bit integers of a kernel's parameters could look like an address: the upper half
// of this one is a size that hardly any tensor has, and the lower one is too large for a size.
constexpr Address arena_low = 0x2b5d40000000;
constexpr std::size_t arena_bytes = std::size_t(2) << 30;
constexpr std::size_t allocation_limit = std::size_t(1) << 30;  // live bytes of cudaMalloc
// Allocations lie below, mapped arguments above. The slack is for red zones and freed memory.
constexpr std::size_t arguments_offset = std::size_t(1280) << 20;
constexpr std::size_t page_bytes = 4096;

// The bits of a shadow byte. Zero: kernels may not touch the byte.
namespace shadow_bit {
constexpr std::uint8_t addressable = 1, initialised = 2, writable = 4, freed = 8, constant = 16,
                       copied = 32;  // from device memory, so that it may hold a tensor's values
}

extern std::uint8_t* shadow;  // of arena_bytes + the executable's image

inline bool in_arena(Address a) { return a - arena_low < arena_bytes; }

// Tensors of large sizes, beyond the arena: they have neither shadow nor, until a block touches it,
// memory. They lie so far apart that an index that has wrapped at 32 bits reaches none of them. The
// upper half of an address is no multiple of 16, so that two adjacent sizes don't look like one.
constexpr Address vast_low = 0x2b5e00000000;
constexpr std::size_t vast_bytes = std::size_t(1) << 42;
inline bool in_vast(Address a) { return a - vast_low < vast_bytes; }
// Addresses for so many bytes, `with_memory` or without; null where there are none.
char* reserve_vast(const char* name, std::size_t bytes, bool with_memory);
void forget_vast();
// Whether `size` bytes lie in a vast tensor; else `text` says where they lie.
struct Description;
bool is_in_vast_tensor(Address a, std::size_t size, Description& text);
inline bool in_image(Address a) { return a - image().low < image().high - image().low; }
// The __device__ variables of the image, as an offset of global memory. A sector or a page of the
// image is one of global memory, too.
inline std::uint32_t image_offset(Address a) {
    return static_cast<std::uint32_t>(arena_bytes + (a - image().low / page_bytes * page_bytes));
}
// Of an address in the arena or the image.
inline std::uint32_t global_offset(Address a) {
    return in_arena(a) ? static_cast<std::uint32_t>(a - arena_low) : image_offset(a);
}

// An allocation, a registered argument or a __device__ variable.
struct Place {
    std::uint32_t offset;
    std::size_t bytes;
    int argument;  // its index, or -1
    bool freed;
    char name[120];  // "": a cudaMalloc
    Address allocated_at;
};

extern std::vector<Place> allocations, arguments;
std::vector<Place>& device_variable_places();
struct Variable;
void place_variable(const Variable& variable);

// Whether it is device memory with a shadow: all but vast tensors.
bool has_shadow(const void* p);
// Whether there is memory at all, allocated or not; without it, a load would end the process.
bool is_readable_in_launch(std::uint32_t offset, std::size_t size);

// The place of the byte, or else the nearest; null if there is none at all.
const Place* nearest_place(std::uint32_t offset);
// "4 bytes at offset 4000 of input, which has 4000 bytes".
struct Description {
    char text[400];
};
Description describe_global(std::uint32_t offset, std::size_t size);
Description describe_shared(Address a, std::size_t size);
// The argument that contains the byte, or -1.
int argument_at(std::uint32_t offset);
int argument_count();  // one more than the highest index

// Memory of cudaMallocManaged: host code may read and write it, too.
bool is_managed(Address a, std::size_t bytes = 1);

void forget_device_memory();  // allocations and arguments
// Of the allocations from number `first` on, in the order in which they were made.
void report_leaks(std::size_t first = 0);

}  // namespace warpgrade
