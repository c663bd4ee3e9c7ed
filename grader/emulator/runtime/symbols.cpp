// Reads the executable's own symbol table once, at the start.
#include "symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "device_memory.h"
#include "observe.h"

namespace warpgrade {
namespace {

struct Range {
    Address low = 0, high = 0;
    bool holds(Address a, std::size_t bytes) const {
        return a >= low && bytes <= high - low && a <= high - bytes;
    }
};

struct Function {
    Address low;
    const char* symbol;
    std::size_t bytes;
};

// Not plain globals: a constructor of the student's static objects may run, and be observed, before
// this file's constructors.
struct Table {
    std::vector<Variable> shared, guards, device;
    std::vector<Function> functions;
};
Table& table() {
    static Table& all = *new Table;
    return all;
}

Range data, zeroed, device_section, constant_section;
// The toolchain renames our own objects' data sections, and puts __device__ variables into sections
// of their own.
bool sections_are_told_apart;

// The executable's file, mapped permanently: names point into it.
struct ElfFile {
    const char* bytes = nullptr;
    std::size_t size = 0;

    template <class T>
    const T* at(std::uint64_t offset, std::uint64_t count = 1) const {
        bool inside = offset <= size && count <= (size - offset) / sizeof(T);
        return inside ? reinterpret_cast<const T*>(bytes + offset) : nullptr;
    }
};

ElfFile open_executable() {
    ElfFile file;
    int descriptor = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return file;
    struct stat status;
    if (fstat(descriptor, &status) == 0 && status.st_size > 0) {
        file.size = static_cast<std::size_t>(status.st_size);
        void* mapped = mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        file.bytes = mapped == MAP_FAILED ? nullptr : static_cast<const char*>(mapped);
        if (!file.bytes) file.size = 0;
    }
    close(descriptor);
    return file;
}

void keep_section(const char* name, const Elf64_Shdr& section) {
    Range range{image().base + section.sh_addr, image().base + section.sh_addr + section.sh_size};
    if (!std::strcmp(name, ".data")) data = range;
    if (!std::strcmp(name, ".bss")) zeroed = range;
    if (!std::strcmp(name, "warpgrade_device")) device_section = range;
    if (!std::strcmp(name, "warpgrade_constant")) constant_section = range;
    if (!std::strcmp(name, "warpgrade_data") || !std::strcmp(name, "warpgrade_bss")) {
        sections_are_told_apart = true;
    }
}

// CUDA's own thread-local names, and all of the runtime's namespace.
bool is_ours(const char* symbol) {
    static const char* const built_in[] = {"threadIdx", "blockIdx", "blockDim", "gridDim"};
    for (const char* name : built_in) {
        if (!std::strcmp(symbol, name)) return true;
    }
    return std::strstr(symbol, "warpgrade") != nullptr;
}

void keep_symbol(const char* name, const Elf64_Sym& symbol) {
    int type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx == SHN_UNDEF) return;
    Address place = image().base + symbol.st_value;
    if (type == STT_FUNC) table().functions.push_back({place, name, symbol.st_size});
    if (!symbol.st_size || is_ours(name)) return;
    if (type == STT_TLS && !std::strncmp(name, "_ZGV", 4)) {
        table().guards.push_back({image().tls_low + symbol.st_value, symbol.st_size, name, false});
    } else if (type == STT_TLS) {
        table().shared.push_back({image().tls_low + symbol.st_value, symbol.st_size, name, false});
    } else if (type == STT_OBJECT) {
        bool constant = constant_section.holds(place, symbol.st_size);
        bool device_variable = constant || device_section.holds(place, symbol.st_size) ||
                               (!sections_are_told_apart && in_student_data(place, symbol.st_size));
        if (device_variable) table().device.push_back({place, symbol.st_size, name, constant});
    }
}

template <class Keep>
void each_symbol(const ElfFile& file, const Elf64_Shdr& table, const Elf64_Shdr& names, Keep keep) {
    std::size_t count = table.sh_size / sizeof(Elf64_Sym);
    const auto* symbols = file.at<Elf64_Sym>(table.sh_offset, count);
    const char* text = file.at<char>(names.sh_offset, names.sh_size);
    if (!symbols || !text) return;
    for (std::size_t i = 0; i < count; ++i) {
        if (symbols[i].st_name < names.sh_size) keep(text + symbols[i].st_name, symbols[i]);
    }
}

bool lower(const Variable& a, const Variable& b) { return a.low < b.low; }

}  // namespace

const std::vector<Variable>& shared_variables() { return table().shared; }
const std::vector<Variable>& shared_guards() { return table().guards; }
const std::vector<Variable>& device_variables() { return table().device; }
void add_device_variable(const Variable& variable) {
    table().device.push_back(variable);
    if (shadow) place_variable(variable);
}

bool device_variables_are_known() { return sections_are_told_apart; }

// A symbol as C++ writes it, to be freed; null for one that isn't mangled: `g` would be __float128.
static char* demangled(const char* symbol) {
    int status = 0;
    const bool is_mangled = std::strncmp(symbol, "_Z", 2) == 0;
    return is_mangled ? abi::__cxa_demangle(symbol, nullptr, nullptr, &status) : nullptr;
}

const char* plain_name(char (&text)[120], const char* symbol) {
    char* readable = demangled(symbol);
    const char* whole = readable ? readable : symbol;
    const char* last = whole;
    for (const char* p = whole; (p = std::strstr(p, "::")); p += 2) last = p + 2;
    std::size_t length = std::min(std::strcspn(last, " ["), sizeof text - 1);
    std::memcpy(text, last, length);
    text[length] = 0;
    std::free(readable);
    return text;
}

const char* function_name(char (&text)[120], const char* symbol) {
    char* readable = demangled(symbol);
    std::string name = readable ? readable : symbol;
    std::free(readable);
    if (name.rfind("void ", 0) == 0) name.erase(0, 5);  // from a template's instance
    std::size_t end = name.size();
    for (int depth = 0; end > 0;) {  // the parameters' parentheses are the last ones
        const char letter = name[--end];
        depth += (letter == ')') - (letter == '(');
        if (letter == '(' && depth == 0) break;
    }
    if (end > 0) name.resize(end);
    text[name.copy(text, sizeof text - 1)] = 0;
    return text;
}

const char* symbol_of(const void* function) {
    for (const Function& each : table().functions) {
        if (each.low == reinterpret_cast<Address>(function)) return each.symbol;
    }
    return "";
}

const void* function_of(const char* symbol) {
    for (const Function& each : table().functions) {
        if (!std::strcmp(each.symbol, symbol)) return reinterpret_cast<const void*>(each.low);
    }
    return nullptr;
}

bool in_student_data(Address a, std::size_t bytes) {
    return data.holds(a, bytes) || zeroed.holds(a, bytes);
}

std::size_t static_shared_bytes(const void* function) {
    Address address = reinterpret_cast<Address>(function);
    const std::vector<Function>& functions = table().functions;
    auto found = std::find_if(functions.begin(), functions.end(),
                              [=](const Function& each) { return each.low == address; });
    if (found == functions.end() || std::strncmp(found->symbol, "_Z", 2)) return 0;
    // A variable of function _Z6kernelPf is _ZZ6kernelPfE4tile.
    const char* inner = found->symbol + 2;
    std::size_t length = std::strlen(inner), bytes = 0;
    for (const Variable& each : table().shared) {
        if (!std::strncmp(each.symbol, "_ZZ", 3) && !std::strncmp(each.symbol + 3, inner, length) &&
            each.symbol[3 + length] == 'E') {
            bytes += each.bytes;
        }
    }
    return bytes;
}

unsigned launch_bounds(const void* function) {
    static const unsigned char mark[] = {0x0f, 0x1f, 0x80, 'd', 'n', 'b', 'l', 0x0f, 0x1f, 0x80};
    for (const Function& each : table().functions) {
        if (each.low != reinterpret_cast<Address>(function)) continue;
        const void* found = memmem(function, each.bytes, mark, sizeof mark);
        if (!found) return 0;
        unsigned threads;
        std::memcpy(&threads, static_cast<const char*>(found) + sizeof mark, sizeof threads);
        return threads;
    }
    return 0;
}

void read_symbols() {
    ElfFile file = open_executable();
    const auto* header = file.at<Elf64_Ehdr>(0);
    if (!header) return;
    const auto* sections = file.at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
    if (!sections || header->e_shstrndx >= header->e_shnum) return;
    const Elf64_Shdr& names = sections[header->e_shstrndx];
    const char* text = file.at<char>(names.sh_offset, names.sh_size);
    if (!text) return;
    for (int i = 0; i < header->e_shnum; ++i) {
        std::uint32_t name = sections[i].sh_name;
        if (name < names.sh_size) keep_section(text + name, sections[i]);
    }
    for (int i = 0; i < header->e_shnum; ++i) {
        bool is_table = sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < header->e_shnum;
        if (is_table) each_symbol(file, sections[i], sections[sections[i].sh_link], keep_symbol);
    }
    std::sort(table().shared.begin(), table().shared.end(), lower);
    std::sort(table().device.begin(), table().device.end(), lower);
}

}  // namespace warpgrade
