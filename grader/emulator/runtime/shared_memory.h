// The bytes of the executable's thread-local segment that are shared memory of the running launch
// (internal to the observation half).
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core.h"

namespace warpgrade {

// One byte for each of the segment: 1 for a __shared__ variable or the launch's dynamic shared
// memory, shared_unseen for data of the compiler's that no program uses.
extern std::uint8_t* shared_valid;
constexpr std::uint8_t shared_unseen = 2;
extern Address shared_low;
extern std::size_t shared_bytes;

void initialise_shared_memory();
void open_dynamic_shared(std::size_t bytes);  // of the next launch
void note_shared_use(std::uint32_t offset);   // for static_shared of the report
std::size_t used_static_shared();             // bytes of the variables noted since the launch began

// The shared memory of a block that waits at the grid's barrier, and the bytes it has stored.
struct SharedContent {
    std::vector<char> bytes;
    std::vector<std::uint8_t> stored;  // of each four bytes a bit for each
};
SharedContent keep_shared();
// Call it after observe_block_begin. Stored bytes count as stored by the block earlier.
void bring_shared_back(const SharedContent& content);

}  // namespace warpgrade
