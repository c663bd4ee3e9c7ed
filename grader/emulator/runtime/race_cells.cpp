// The memory of the race detector's cells.
#include <sys/mman.h>

#include <cstring>

#include "../include/warpgrade/device_api.h"
#include "ordering.h"
#include "races.h"

namespace warpgrade {

RaceCell** global_cell_pages;
RaceCell* shared_cells;
RaceCell (*split_cells)[4];

namespace {

constexpr std::size_t pages_at_once = 64;
constexpr std::size_t kept_cell_bytes = std::size_t{256} << 20;  // more is freed

struct Chunk {
    RaceCell* cells;
    std::vector<std::uint32_t> pages;
};

std::vector<Chunk> chunks;
using Parts = RaceCell[4];
std::size_t split_count = 1, split_capacity;  // number 0 is none

RaceCell* map_cells(std::size_t count) {
    void* p = mmap(nullptr, count * sizeof(RaceCell), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) warpgrade_unsupported("data of this size");
    return static_cast<RaceCell*>(p);
}

void grow_split_cells() {
    std::size_t capacity = split_capacity ? 2 * split_capacity : 4096;
    auto* larger = reinterpret_cast<Parts*>(map_cells(4 * capacity));
    if (split_cells) {
        std::memcpy(larger, split_cells, split_capacity * sizeof(Parts));
        munmap(split_cells, split_capacity * sizeof(Parts));
    }
    split_cells = larger;
    split_capacity = capacity;
}

}  // namespace

void split_cell(RaceCell& cell) {
    if (cell.split) return;
    if (split_count >= split_capacity) grow_split_cells();
    for (RaceCell& part : split_cells[split_count]) part = cell;
    cell.split = static_cast<std::uint32_t>(split_count++);
}

RaceCell* make_cell_page(std::uint32_t page) {
    if (chunks.empty() || chunks.back().pages.size() == pages_at_once) {
        chunks.push_back({map_cells(pages_at_once * cells_per_page), {}});
    }
    Chunk& chunk = chunks.back();
    RaceCell* cells = chunk.cells + chunk.pages.size() * cells_per_page;
    chunk.pages.push_back(page);
    return global_cell_pages[page] = cells;
}

void initialise_races(std::size_t global_bytes) {
    std::size_t pages = global_bytes / page_bytes + 1;
    void* table = mmap(nullptr, pages * sizeof(RaceCell*), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) warpgrade_unsupported("a machine with so little memory");
    global_cell_pages = static_cast<RaceCell**>(table);
    shared_cells = map_cells((image().tls_high - image().tls_low) / 4 + 16);
}

void clear_cells() {
    for (const Chunk& chunk : chunks) {
        for (std::uint32_t page : chunk.pages) global_cell_pages[page] = nullptr;
        munmap(chunk.cells, pages_at_once * cells_per_page * sizeof(RaceCell));
    }
    chunks.clear();
    if (split_cells) munmap(split_cells, split_capacity * sizeof(Parts));
    split_cells = nullptr;
    split_count = 1;
    split_capacity = 0;
    std::size_t shared_count = (image().tls_high - image().tls_low) / 4 + 16;
    madvise(shared_cells, shared_count * sizeof(RaceCell), MADV_DONTNEED);
}

void give_back_cells() {
    std::size_t bytes = chunks.size() * pages_at_once * cells_per_page * sizeof(RaceCell) +
                        split_count * sizeof(Parts);
    if (bytes > kept_cell_bytes) clear_cells();
}

}  // namespace warpgrade
