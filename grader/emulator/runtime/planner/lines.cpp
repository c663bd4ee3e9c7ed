// The table of lines that the build has appended to the executable (grader/emulator/linking.py):
// pairs of a return address, relative to the load base, and its line; then, for host code from
// nvcc, the marked starts of each line's instructions; then a footer.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "plan.h"

namespace warpgrade::plan {
namespace {

struct Row {
    std::uint64_t pc, line;
};
struct Footer {
    char mark[8];
    std::uint64_t rows;
};
constexpr std::uint64_t instructions = std::uint64_t{1} << 40;  // sites.py adds it
constexpr char mark[8] = {'W', 'G', 'L', 'I', 'N', 'E', 'S', '1'};

struct Table {
    const Row *first = nullptr, *last = nullptr;
};

Table read_table() {
    Table table;
    const int descriptor = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return table;
    struct stat status;
    const bool known = fstat(descriptor, &status) == 0;
    const std::size_t size = known ? static_cast<std::size_t>(status.st_size) : 0;
    void* mapped = size >= sizeof(Footer)
                       ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0)
                       : MAP_FAILED;
    close(descriptor);
    if (mapped == MAP_FAILED) return table;
    const char* end = static_cast<const char*>(mapped) + size - sizeof(Footer);
    Footer footer;
    std::memcpy(&footer, end, sizeof footer);
    const std::size_t room = (size - sizeof(Footer)) / sizeof(Row);
    if (std::memcmp(footer.mark, mark, sizeof mark) || footer.rows > room) return table;
    table.last = reinterpret_cast<const Row*>(end);
    table.first = table.last - footer.rows;
    return table;
}

const Table& lines() {
    static const Table table = read_table();
    return table;
}

}  // namespace

Address row_of(Address instruction) {
    const std::uint64_t wanted = instruction - image().base + instructions;
    const Row* next = std::upper_bound(
        lines().first, lines().last, wanted,
        [](std::uint64_t value, const Row& row) { return value < row.pc; });
    if (next == lines().first || next[-1].pc < instructions) return instruction;
    return image().base + next[-1].pc;
}

unsigned line_of(Address pc) {
    const Table& table = lines();
    const std::uint64_t wanted = pc - image().base;
    const Row* found = std::lower_bound(
        table.first, table.last, wanted,
        [](const Row& row, std::uint64_t value) { return row.pc < value; });
    return found != table.last && found->pc == wanted ? static_cast<unsigned>(found->line) : 0;
}

}  // namespace warpgrade::plan
