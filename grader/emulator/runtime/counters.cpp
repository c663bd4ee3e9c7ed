// From the accesses of a warp to sectors, wavefronts and bank conflicts, as the hardware counts
// them (calibrated against ncu on an H100: tests/grader/emulator/).
#include "counters.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "access.h"
#include "device_memory.h"
#include "observe.h"
#include "records.h"
#include "shared_memory.h"

namespace warpgrade {

std::size_t trace_room;
bool trace_overflowed;

namespace {

constexpr std::uint32_t sector_bytes = 32, bank_bytes = 4, banks = 32;
constexpr std::size_t most_launches = 200;
constexpr std::size_t most_traced = std::size_t{12} << 20;  // events, of 12 bytes each
constexpr std::size_t sites_remembered = 256;

std::vector<LaunchCounters> launches;
std::vector<BufferCounters> buffers;
bool dropped;
LaunchCounters spare;              // for launches that aren't kept
LaunchCounters* current = &spare;
// The last index in current->sites of a place, by a hash of it: number plus one.
std::uint32_t site_numbers[sites_remembered];
std::uint64_t largest_bytes;  // of the launch's threads so far
std::vector<bool> storing;     // by the number of the launch's block
std::uint64_t storing_blocks;

SiteCounters& site_of(const WarpAccess& access) {
    std::uint32_t& number = site_numbers[(access.pc ^ access.pc >> 8) % sites_remembered];
    auto matches = [&](const SiteCounters& site) {
        return site.pc == access.pc && site.kind == access.kind && site.space == access.space &&
               site.bytes == access.bytes;
    };
    std::vector<SiteCounters>& sites = current->sites;
    if (number && matches(sites[number - 1])) return sites[number - 1];
    auto found = std::find_if(sites.begin(), sites.end(), matches);
    if (found == sites.end()) {
        SiteCounters site{};
        site.pc = access.pc;
        site.kind = access.kind;
        site.space = access.space;
        site.bytes = access.bytes;
        found = sites.insert(sites.end(), site);
    }
    number = static_cast<std::uint32_t>(found - sites.begin() + 1);
    return *found;
}

// ---- Global memory ------------------------------------------------------------------------------

// The sectors that a request touches, and their requested bytes.
struct Sectors {
    int count = 0;
    std::uint32_t number[2 * warp_lanes], bytes[2 * warp_lanes];

    // Lanes mostly ascend, so the sector is mostly the last one, or a new one behind it.
    void add(std::uint32_t sector, std::uint32_t mask) {
        int i = count - 1;
        if (count && sector < highest) {
            while (i >= 0 && number[i] != sector) --i;
        } else if (count && number[i] != sector && sector == highest) {
            while (number[i] != sector) --i;
        } else if (count && sector > highest) {
            i = -1;
        }
        if (i >= 0) {
            bytes[i] |= mask;
            return;
        }
        highest = sector > highest ? sector : highest;
        number[count] = sector;
        bytes[count++] = mask;
    }

private:
    std::uint32_t highest = 0;
};

// Of `bytes` bytes from `first` in a sector.
std::uint32_t byte_mask(std::uint32_t first, std::uint32_t bytes) {
    std::uint32_t mask = bytes >= sector_bytes ? ~0u : (1u << bytes) - 1;
    return mask << first;
}

void find_sectors(const WarpAccess& access, Sectors& sectors) {
    for (int i = 0; i < access.lanes; ++i) {
        std::uint32_t offset = access.offset[i], first = offset % sector_bytes;
        std::uint32_t inside = std::min<std::uint32_t>(access.bytes, sector_bytes - first);
        sectors.add(offset / sector_bytes, byte_mask(first, inside));
        if (inside < access.bytes) {
            sectors.add(offset / sector_bytes + 1, byte_mask(0, access.bytes - inside));
        }
    }
}

void count_buffer(const WarpAccess& access, std::uint32_t sector, std::uint32_t useful) {
    std::uint32_t first_byte = sector * sector_bytes;
    int argument = argument_at(first_byte);
    if (argument < 0) argument = argument_at(first_byte + sector_bytes - 1);
    if (argument < 0 || argument >= static_cast<int>(buffers.size())) return;
    BufferCounters& buffer = buffers[static_cast<std::size_t>(argument)];
    if (access.kind != access::store) {
        buffer.load_bytes += useful;
        ++buffer.load_sectors;
    }
    if (access.kind != access::load) {
        buffer.store_bytes += useful;
        ++buffer.store_sectors;
    }
}

void note_storing_block() {
    if (current_block.linear >= storing.size() || storing[current_block.linear]) return;
    storing[current_block.linear] = true;
    ++storing_blocks;
}

void count_global(const WarpAccess& access, SiteCounters& site) {
    if (access.kind != access::load) note_storing_block();
    Sectors sectors;
    find_sectors(access, sectors);
    site.sectors += static_cast<std::uint64_t>(sectors.count);
    for (int i = 0; i < sectors.count; ++i) {
        std::uint32_t useful = static_cast<std::uint32_t>(__builtin_popcount(sectors.bytes[i]));
        site.useful_bytes += useful;
        count_buffer(access, sectors.number[i], useful);
    }
}

// ---- Shared memory ------------------------------------------------------------------------------

// The number of different words in the busiest bank, which is the number of wavefronts.
struct BankLoad {
    std::uint32_t words[banks][warp_lanes];
    std::uint8_t count[banks] = {};
    int busiest = 0;

    void add(std::uint32_t word) {
        std::uint32_t bank = word % banks;
        int held = count[bank];
        for (int i = 0; i < held; ++i) {
            if (words[bank][i] == word) return;
        }
        words[bank][held] = word;
        count[bank] = static_cast<std::uint8_t>(held + 1);
        busiest = std::max(busiest, held + 1);
    }
};

// An access of more than four bytes is served for half or a quarter of the warp at a time.
int lanes_at_once(int bytes) { return bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8; }

void count_shared(const WarpAccess& access, SiteCounters& site) {
    int at_once = lanes_at_once(access.bytes);
    for (int i = 0; i < access.lanes;) {
        int group = access.lane[i] / at_once;
        BankLoad load;
        for (; i < access.lanes && access.lane[i] / at_once == group; ++i) {
            std::uint32_t last = (access.offset[i] + access.bytes - 1u) / bank_bytes;
            for (std::uint32_t word = access.offset[i] / bank_bytes; word <= last; ++word) {
                load.add(word);
            }
        }
        site.wavefronts += static_cast<std::uint64_t>(load.busiest);
        site.conflicts += static_cast<std::uint64_t>(load.busiest - 1);
        site.ways = std::max<std::uint64_t>(site.ways, static_cast<std::uint64_t>(load.busiest));
    }
    note_shared_use(access.offset[0]);
}

bool same(const Index3& a, const Index3& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

LaunchCounters* counters_of(const Launch& launch) {
    for (LaunchCounters& each : launches) {
        if (same(each.grid, launch.grid) && same(each.block, launch.block) &&
            each.dynamic_shared == launch.dynamic_shared &&
            !std::strncmp(each.kernel, launch.kernel, sizeof each.kernel - 1)) {
            return &each;
        }
    }
    if (launches.size() == most_launches) {
        dropped = true;
        return &spare;
    }
    LaunchCounters next{};
    std::snprintf(next.kernel, sizeof next.kernel, "%s", launch.kernel);
    next.grid = launch.grid;
    next.block = launch.block;
    next.dynamic_shared = launch.dynamic_shared;
    launches.push_back(next);
    return &launches.back();
}

}  // namespace

const std::vector<LaunchCounters>& launch_counters() { return launches; }
const std::vector<BufferCounters>& buffer_counters() { return buffers; }
bool counters_are_incomplete() { return dropped || trace_overflowed; }

void forget_counters() {
    launches.clear();
    buffers.clear();
    dropped = trace_overflowed = false;
}

void counters_launch_begin() {
    if (!counting) return;
    current = counters_of(*current_launch);
    ++current->count;
    trace_room = most_traced;
    largest_bytes = storing_blocks = 0;
    const Index3& grid = current_launch->grid;
    storing.assign(std::size_t{grid.x} * grid.y * grid.z, false);
    std::memset(site_numbers, 0, sizeof site_numbers);
    buffers.resize(static_cast<std::size_t>(argument_count()));
}

void counters_launch_end() {
    if (!counting) return;
    current->static_shared = std::max(current->static_shared, used_static_shared());
    current->largest_bytes += largest_bytes;
    current->storing_blocks = std::max(current->storing_blocks, storing_blocks);
}

// A block at the grid's barrier ends here too, and its threads go on with the bytes they have.
void counters_block_end() {
    if (!counting) return;
    for (const Thread& thread : threads) {
        largest_bytes = std::max<std::uint64_t>(largest_bytes, thread.global_bytes);
    }
}

void count_request(const WarpAccess& access) {
    SiteCounters& site = site_of(access);
    const SiteCounters before = site;
    ++site.requests;
    site.lanes += static_cast<std::uint64_t>(access.lanes);
    if (access.space == access::global) {
        count_global(access, site);
    } else {
        count_shared(access, site);
    }
    if (recording) record_request(access, before, site);
}

void count_block_entry(int lanes) {
    ++current->blocks_entered;
    current->lanes_entered += static_cast<std::uint64_t>(lanes);
}

}  // namespace warpgrade
