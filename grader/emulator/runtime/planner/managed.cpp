#include "managed.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace warpgrade::plan {
namespace {

struct Managed {
    char* low;
    std::size_t bytes;
    char* known;  // what the device has of it, as far as host code wrote it
    bool in_use;  // by the device
};
std::vector<Managed> all;

constexpr std::size_t unit = 64;  // bytes that are compared and uploaded together

void release(const Managed& each) { munmap(each.known, each.bytes); }

Managed* holding(const void* p) {
    const auto a = reinterpret_cast<Address>(p);
    for (Managed& each : all) {
        if (a - reinterpret_cast<Address>(each.low) < each.bytes) return &each;
    }
    return nullptr;
}

}  // namespace

void forget_managed() {
    std::for_each(all.begin(), all.end(), release);
    all.clear();
}

void add_managed(char* low, std::size_t bytes) {
    void* known = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (known != MAP_FAILED) all.push_back({low, bytes, static_cast<char*>(known), false});
}

void remove_managed(const void* low) {
    const Managed* each = holding(low);
    if (!each) return;
    release(*each);
    all.erase(all.begin() + (each - all.data()));
}

void take_changes(const std::function<void(char*, std::size_t)>& take) {
    for (const Managed& each : all) {
        std::size_t start = 0, end = 0;  // of the run that is being found
        for (std::size_t at = 0; at < each.bytes; at += unit) {
            const std::size_t width = std::min(unit, each.bytes - at);
            if (!std::memcmp(each.low + at, each.known + at, width)) continue;
            std::memcpy(each.known + at, each.low + at, width);
            if (at != end && end > start) take(each.low + start, end - start);
            if (at != end || end == start) start = at;
            end = at + width;
        }
        if (end > start) take(each.low + start, end - start);
    }
}

void put_managed(char* to, const char* from, std::size_t bytes) {
    const Managed* each = holding(to);
    if (!each) return;
    std::memmove(to, from, bytes);
    std::memcpy(each->known + (to - each->low), to, bytes);
}

void fill_managed(char* to, int value, std::size_t bytes) {
    const Managed* each = holding(to);
    if (!each) return;
    std::memset(to, value, bytes);
    std::memset(each->known + (to - each->low), value, bytes);
}

void device_works() {
    for (Managed& each : all) each.in_use = true;
}

bool may_be_written(Address a) {
    const Managed* each = holding(reinterpret_cast<const void*>(a));
    return each && each->in_use;
}

}  // namespace warpgrade::plan
