// The places in global memory, and their descriptions.
#include <algorithm>
#include <cstdio>

#include "device_memory.h"

namespace warpgrade {

std::vector<Place> allocations, arguments;

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
