#include "shared_memory.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "device_memory.h"
#include "symbols.h"

namespace warpgrade {

std::uint8_t* shared_valid;
Address shared_low;
std::size_t shared_bytes;

namespace {

constexpr std::size_t slack = 64;  // an access may begin at the last byte
std::size_t opened;                // bytes of dynamic shared memory of the launch
std::uint16_t* owners;               // for four bytes each: number of the variable plus one
std::vector<bool> used;

Address dynamic_low() { return reinterpret_cast<Address>(warpgrade_dynamic_shared); }

const char* bytes_word(std::size_t size) { return size == 1 ? "byte" : "bytes"; }

}  // namespace

void initialise_shared_memory() {
    shared_low = image().tls_low;
    shared_bytes = image().tls_high - shared_low;
    shared_valid = new std::uint8_t[shared_bytes + slack]();
    owners = new std::uint16_t[shared_bytes / 4 + slack]();
    const std::vector<Variable>& variables = shared_variables();
    for (std::size_t i = 0; i < variables.size(); ++i) {
        std::size_t offset = variables[i].low - shared_low;
        std::memset(shared_valid + offset, 1, variables[i].bytes);
        std::fill_n(owners + offset / 4, (variables[i].bytes + 3) / 4,
                    static_cast<std::uint16_t>(i + 1));
    }
    for (const Variable& guard : shared_guards()) {
        std::memset(shared_valid + (guard.low - shared_low), shared_unseen, guard.bytes);
    }
}

void open_dynamic_shared(std::size_t bytes) {
    std::uint8_t* valid = shared_valid + (dynamic_low() - shared_low);
    if (opened > bytes) std::memset(valid + bytes, 0, opened - bytes);
    if (opened < bytes) std::memset(valid + opened, 1, bytes - opened);
    opened = bytes;
    used.assign(shared_variables().size() + 1, false);
}

void note_shared_use(std::uint32_t offset) { used[owners[offset / 4]] = true; }

std::size_t used_static_shared() {
    std::size_t bytes = 0;
    for (std::size_t i = 1; i < used.size(); ++i) {
        if (used[i]) bytes += shared_variables()[i - 1].bytes;
    }
    return bytes;
}

namespace {

std::size_t distance(const Variable& variable, Address a) {
    if (a < variable.low) return variable.low - a;
    return a < variable.low + variable.bytes ? 0 : a - variable.low - variable.bytes + 1;
}

const Variable* nearest_variable(Address a) {
    const Variable* nearest = nullptr;
    for (const Variable& each : shared_variables()) {
        if (!nearest || distance(each, a) < distance(*nearest, a)) nearest = &each;
    }
    return nearest;
}

}  // namespace

Description describe_shared(Address a, std::size_t size) {
    Description answer;
    char* text = answer.text;
    constexpr std::size_t room = sizeof answer.text;
    if (a - dynamic_low() < warpgrade_dynamic_shared_bytes) {
        std::snprintf(text, room,
                      "%zu %s at offset %zu of dynamic shared memory, of which the launch has %zu "
                      "bytes", size, bytes_word(size), a - dynamic_low(), opened);
        return answer;
    }
    const Variable* variable = nearest_variable(a);
    if (!variable) {
        std::snprintf(text, room, "%zu %s of shared memory", size, bytes_word(size));
        return answer;
    }
    char name[120];
    plain_name(name, variable->symbol);
    if (a < variable->low) {
        std::snprintf(text, room,
                      "%zu %s, %zu bytes before the start of %s, which has %zu bytes of shared "
                      "memory", size, bytes_word(size), variable->low - a, name,
                      variable->bytes);
    } else {
        std::snprintf(text, room,
                      "%zu %s at offset %zu of %s, which has %zu bytes of shared memory", size,
                      bytes_word(size), a - variable->low, name, variable->bytes);
    }
    return answer;
}

}  // namespace warpgrade

using namespace warpgrade;

extern "C" {

// Addresses as PTX has them, from the start of shared memory on.
void* warpgrade_shared_at(unsigned offset) { return reinterpret_cast<void*>(shared_low + offset); }
// A global access with an address of shared or local memory is reported: nothing lies there then.
void* warpgrade_global_at(unsigned long long address) {
    const bool is_shared = address - shared_low < shared_bytes;
    const bool is_local = address - stacks_low < stacks_size;
    return reinterpret_cast<void*>(is_shared || is_local ? address | not_global : address);
}
std::size_t warpgrade_shared_offset(const void* p) {
    return reinterpret_cast<Address>(p) - shared_low;
}

}  // extern "C"
