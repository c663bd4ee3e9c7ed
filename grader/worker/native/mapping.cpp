#include "mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace warpgrade::host {
namespace {

[[noreturn]] void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

Mapping::Mapping(int descriptor, std::size_t length, bool writable, std::size_t margin)
    : length_(length), protection_(PROT_READ | (writable ? PROT_WRITE : 0)) {
    void* reserved = mmap(nullptr, length + 2 * margin, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) fail("mmap of the margins");
    start_ = static_cast<char*>(reserved) + margin;
    if (mmap(start_, length, protection_, MAP_SHARED | MAP_FIXED, descriptor, 0) == MAP_FAILED) {
        fail("mmap of a buffer");
    }
}

void Mapping::expose(const std::vector<std::pair<std::size_t, std::size_t>>& ranges) {
    if (mprotect(start_, length_, PROT_NONE)) fail("mprotect");
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (const auto& [offset, length] : ranges) {
        const std::size_t first = offset / page * page;
        const std::size_t end = std::min((offset + length + page - 1) / page * page, length_);
        if (end > first && mprotect(start_ + first, end - first, protection_)) fail("mprotect");
    }
}

}  // namespace warpgrade::host
