// The places in global memory, and their descriptions.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>

#include "device_memory.h"

namespace warpgrade {

std::vector<Place> allocations, arguments;

namespace {

constexpr Address first_vast = 0x2b6500000000;
constexpr std::size_t between_vast = std::size_t(128) << 30, most_vast = std::size_t(40) << 30;

struct VastTensor {
    Address low;
    std::size_t bytes;
    char name[120];
    bool has_memory;
};
std::vector<VastTensor> vast;

}  // namespace

char* reserve_vast(const char* name, std::size_t bytes, bool with_memory) {
    const Address low = first_vast + vast.size() * between_vast;
    if (bytes > most_vast || !in_vast(low + between_vast)) return nullptr;
    void* p = reinterpret_cast<void*>(low);
    if (with_memory && bytes) {
        constexpr int flags =
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
        if (mmap(p, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) != p) return nullptr;
        madvise(p, bytes, MADV_NOHUGEPAGE);  // a store takes a page, not 2 MiB
    }
    vast.push_back({low, bytes, {}, with_memory && bytes});
    std::snprintf(vast.back().name, sizeof vast.back().name, "%s", name);
    return static_cast<char*>(p);
}

void forget_vast() {
    for (const VastTensor& each : vast) {
        if (each.has_memory) munmap(reinterpret_cast<void*>(each.low), each.bytes);
    }
    vast.clear();
}

bool is_in_vast_tensor(Address a, std::size_t size, Description& answer) {
    if (vast.empty()) return false;
    const Address middle = between_vast / 2;
    const Address place = a + middle < first_vast ? 0 : (a + middle - first_vast) / between_vast;
    const VastTensor& near = vast[std::min<std::size_t>(place, vast.size() - 1)];
    if (a >= near.low && a - near.low + size <= near.bytes) return true;
    const bool before = a < near.low;
    std::snprintf(answer.text, sizeof answer.text, "%zu bytes, %llu bytes %s %s", size,
                  static_cast<unsigned long long>(before ? near.low - a
                                                         : a - near.low - near.bytes),
                  before ? "before the start of" : "behind the end of",
                  near.name[0] ? near.name : "memory that host code allocated");
    return false;
}

// It may be filled before this file's own constructors have run.
std::vector<Place>& device_variable_places() {
    static auto& all = *new std::vector<Place>;
    return all;
}

namespace {

std::size_t distance(const Place& place, std::uint32_t offset) {
    if (offset < place.offset) return place.offset - offset;
    std::size_t behind = offset - place.offset;
    return behind < place.bytes ? 0 : behind - place.bytes + 1;
}

}  // namespace

int argument_at(std::uint32_t offset) {
    for (const Place& each : arguments) {
        if (offset - each.offset < each.bytes) return each.argument;
    }
    return -1;
}

int argument_count() {
    int count = 0;
    for (const Place& each : arguments) count = std::max(count, each.argument + 1);
    return count;
}

const Place* nearest_place(std::uint32_t offset) {
    const Place* nearest = nullptr;
    for (const std::vector<Place>* list : {&arguments, &allocations, &device_variable_places()}) {
        for (const Place& each : *list) {
            if (!nearest || distance(each, offset) < distance(*nearest, offset)) nearest = &each;
        }
    }
    return nearest;
}

Description describe_global(std::uint32_t offset, std::size_t size) {
    Description answer;
    const Place* place = nearest_place(offset);
    const char* bytes = size == 1 ? "byte" : "bytes";
    if (!place) {
        std::snprintf(answer.text, sizeof answer.text, "%zu %s where nothing is allocated", size,
                      bytes);
        return answer;
    }
    char name[200];
    if (place->name[0]) {
        std::snprintf(name, sizeof name, "%s, which has %zu bytes", place->name, place->bytes);
    } else {
        std::snprintf(name, sizeof name, "a cudaMalloc of %zu bytes%s", place->bytes,
                      place->freed ? " that was freed" : "");
    }
    if (offset < place->offset) {
        std::snprintf(answer.text, sizeof answer.text, "%zu %s, %u bytes before the start of %s",
                      size, bytes, place->offset - offset, name);
    } else {
        std::snprintf(answer.text, sizeof answer.text, "%zu %s at offset %u of %s", size, bytes,
                      offset - place->offset, name);
    }
    return answer;
}

}  // namespace warpgrade
