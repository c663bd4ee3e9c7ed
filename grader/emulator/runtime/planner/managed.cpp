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
    char* known;  // the device's version, as far as host code wrote it
    bool has_pages;       // of its own, so that it can be closed to host code
    bool in_use = false;  // by the device
    bool closed = false;  // to host code

    void close_to_host(bool closing) {
        closed = closing;
        mprotect(low, bytes, closing ? PROT_NONE : PROT_READ | PROT_WRITE);
    }
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

// Opens memory during a change by the planner.
struct Opened {
    Managed& of;
    const bool was_closed = of.closed;
    explicit Opened(Managed& which) : of(which) {
        if (was_closed) of.close_to_host(false);
    }
    ~Opened() {
        if (was_closed) of.close_to_host(true);
    }
};

}  // namespace

bool faults_tell_reads = false;

void forget_managed() {
    std::for_each(all.begin(), all.end(), release);
    all.clear();
}

void add_managed(char* low, std::size_t bytes, bool has_pages) {
    void* known = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (known != MAP_FAILED) all.push_back({low, bytes, static_cast<char*>(known), has_pages});
}

void remove_managed(const void* low) {
    const Managed* each = holding(low);
    if (!each) return;
    release(*each);
    all.erase(all.begin() + (each - all.data()));
}

void take_changes(const std::function<void(char*, std::size_t)>& take) {
    for (const Managed& each : all) {
        if (each.closed) continue;  // nobody has written there
        std::size_t start = 0, end = 0;  // of the current run
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
    Managed* each = holding(to);
    if (!each) return;
    const Opened opened(*each);
    std::memmove(to, from, bytes);
    std::memcpy(each->known + (to - each->low), to, bytes);
}

void fill_managed(char* to, int value, std::size_t bytes) {
    Managed* each = holding(to);
    if (!each) return;
    const Opened opened(*each);
    std::memset(to, value, bytes);
    std::memset(each->known + (to - each->low), value, bytes);
}

void device_works() {
    for (Managed& each : all) {
        each.in_use = true;
        if (faults_tell_reads && each.has_pages) each.close_to_host(true);
    }
}

bool open_managed_again(Address a) {
    Managed* each = holding(reinterpret_cast<const void*>(a));
    if (!each || !each->closed) return false;
    each->close_to_host(false);
    return true;
}

bool may_be_written(Address a) {
    const Managed* each = holding(reinterpret_cast<const void*>(a));
    return each && each->in_use;
}

}  // namespace warpgrade::plan
