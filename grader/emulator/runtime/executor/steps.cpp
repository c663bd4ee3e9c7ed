#include "steps.h"

#include <algorithm>
#include <cstring>

#include "../block_order.h"
#include "../device_memory.h"
#include "../device_work.h"
#include "../observe.h"
#include "../scheduler.h"
#include "../symbols.h"
#include "document.h"

namespace warpgrade::executor {
namespace {

constexpr std::uint32_t magic = 0x58454757;  // "WGEX"
constexpr std::uint32_t version = 3, counters = 1, fresh_variables = 2, sampled = 4, records = 8;
constexpr unsigned undefined_shift = 4, undefined_mask = 3;  // of what shuffles lack
constexpr std::uint32_t host = ~std::uint32_t{0};  // as a buffer: memory that kernels can't access

enum class Kind : std::uint32_t { argument, device, symbol };
enum class Do : std::uint32_t {
    alloc = 1,
    free = 2,
    fill = 3,
    copy = 4,
    upload = 5,
    launch = 6,
    order = 7,
};

struct Buffer {
    std::int32_t argument;
    Kind kind;
    std::size_t bytes;
    std::string name;
    char* low;  // null: not allocated
    bool absent;  // a variable that no kernel reaches: operations on it are skipped
};

struct Kernel {
    std::string name;
    const void* function;
    warpgrade_thunk thunk;
};

struct Step {
    Do what;
    std::uint32_t number;  // of a buffer or a kernel; a fill's value; an order's seed
    Rows to, from;
    std::string data;
    std::vector<Relocation> pointers;
    Index3 grid, block;
    std::size_t shared;
    bool cooperative, backwards;
};

struct Variable {
    char* low;
    std::string value;
};
std::vector<Variable> variables;

// A kernel's pointer to host memory: memory of this process, so that it is recognised.
const char* host_memory() {
    static const void* memory = host_allocate(4096);
    return static_cast<const char*>(memory);
}

Index3 read_index(Reader& reader) {
    const auto [x, y, z] = reader.several<std::uint32_t, 3>();
    return {x, y, z};
}

Step read_step(Reader& reader) {
    Step step{};
    step.what = static_cast<Do>(reader.number());
    switch (step.what) {
        case Do::alloc:
        case Do::free: step.number = reader.number(); break;
        case Do::fill:
            step.to = read_rows(reader);
            step.number = reader.number();
            break;
        case Do::copy:
            step.to = read_rows(reader);
            step.from = read_rows(reader);
            break;
        case Do::upload:
            step.to = read_rows(reader);
            step.data = reader.bytes();
            step.pointers = reader.list(read_relocation);
            break;
        case Do::launch:
            step.number = reader.number();
            step.grid = read_index(reader);
            step.block = read_index(reader);
            step.shared = reader.value<std::uint64_t>();
            step.cooperative = reader.number() != 0;
            step.data = reader.bytes();
            step.pointers = reader.list(read_relocation);
            break;
        case Do::order:
            step.number = reader.number();
            step.backwards = reader.number() != 0;
            break;
        default: throw BadDocument("an unknown step");
    }
    return step;
}

Kernel read_kernel(Reader& reader) {
    Kernel kernel{reader.bytes(), nullptr, nullptr};
    const std::string function = reader.bytes(), thunk = reader.bytes();
    kernel.function = function.empty() ? nullptr : function_of(function.c_str());
    const void* found = function_of(thunk.c_str());
    if (!found || (!kernel.function && !function.empty())) {
        throw BadDocument("there is no kernel " + kernel.name);
    }
    kernel.thunk = reinterpret_cast<warpgrade_thunk>(const_cast<void*>(found));
    return kernel;
}

Buffer read_buffer(Reader& reader) {
    Buffer buffer{};
    buffer.argument = reader.value<std::int32_t>();
    buffer.kind = static_cast<Kind>(reader.number());
    buffer.bytes = reader.value<std::uint64_t>();
    buffer.name = reader.bytes();
    return buffer;
}

void place_symbol(Buffer& buffer) {
    const auto& all = device_variables();
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& each) {
        return buffer.name == each.symbol && each.bytes == buffer.bytes;
    });
    buffer.absent = found == all.end();
    if (!buffer.absent) buffer.low = reinterpret_cast<char*>(found->low);
}

void place_argument(Buffer& buffer, const std::vector<ArgumentMemory>& arguments) {
    for (const ArgumentMemory& each : arguments) {
        if (each.argument == buffer.argument && each.bytes == buffer.bytes) buffer.low = each.low;
    }
    if (!buffer.low) throw BadDocument("an argument that isn't there, or of another size");
}

}  // namespace

struct Steps::Content {
    std::uint32_t flags;
    std::vector<Buffer> buffers;
    std::vector<Kernel> kernels;
    std::vector<Step> steps;

    Buffer& buffer(std::uint32_t number) {
        if (number >= buffers.size()) throw BadDocument("a buffer that isn't there");
        return buffers[number];
    }

    // The start of the rows. Throws where they leave their buffer; null where it is absent.
    char* place(const Rows& rows) {
        const Buffer& target = buffer(rows.buffer);
        if (target.absent) return nullptr;
        if (!target.low) throw BadDocument("memory before its allocation, or after its release");
        const __int128 last = rows.height ? __int128(rows.height - 1) * rows.pitch : 0;
        const bool inside = rows.offset >= 0 && rows.offset + last + rows.width <= target.bytes;
        if (!inside || (rows.height > 1 && rows.width > rows.pitch)) {
            throw BadDocument("rows beyond their buffer");
        }
        return target.low + rows.offset;
    }

    void relocate(std::string& data, const std::vector<Relocation>& pointers) {
        for (const Relocation& each : pointers) {
            if (each.at + sizeof(char*) > data.size()) throw BadDocument("a pointer beyond");
            const char* low = each.buffer == host ? host_memory() : buffer(each.buffer).low;
            const auto word = reinterpret_cast<std::uintptr_t>(low) +
                              static_cast<std::uintptr_t>(each.offset);
            std::memcpy(&data[each.at], &word, sizeof word);
        }
    }

    bool samples() const { return flags & sampled; }

    // Of a sampled plan, every buffer is vast.
    void reserve(Buffer& target) {
        target.low = reserve_vast(target.name.c_str(), target.bytes, true);
        if (!target.low) throw std::bad_alloc();
    }

    void allocate(Buffer& target) {
        if (target.kind != Kind::device || target.low) throw BadDocument("memory allocated twice");
        if (samples()) return reserve(target);
        target.low = static_cast<char*>(device_allocate(target.bytes, 0));
        if (!target.low) throw std::bad_alloc();
    }

    // Released memory keeps its address, so that a kernel's use of it is detected.
    void release(Buffer& target) {
        if (samples()) return;
        if (target.kind != Kind::device || !target.low || device_free(target.low, 0)) {
            throw BadDocument("memory released that isn't there");
        }
    }

    void upload(Step& step) {
        char* to = place(step.to);
        if (!to) return;
        if (__int128(step.to.width) * step.to.height != step.data.size()) {
            throw BadDocument("bytes for another number of bytes");
        }
        relocate(step.data, step.pointers);
        work::copy({to, step.to.pitch, step.data.data(), step.to.width, step.to.width,
                    step.to.height, is_device(to), false},
                   0);
    }

    void copy(const Step& step) {
        char *to = place(step.to), *from = place(step.from);
        if (!to || !from) return;
        if (step.to.width != step.from.width || step.to.height != step.from.height) {
            throw BadDocument("a copy between shapes that differ");
        }
        work::copy({to, step.to.pitch, from, step.from.pitch, step.to.width, step.to.height,
                    is_device(to), is_device(from)},
                   0);
        if (in_image(reinterpret_cast<Address>(to))) mark_as_copied(to, step.to);
    }

    // Of a variable, the bytes that a copy has filled.
    void mark_as_copied(char* to, const Rows& rows) {
        for (std::uint64_t row = 0; row < rows.height; ++row, to += rows.pitch) {
            std::uint8_t* state = shadow + global_offset(reinterpret_cast<Address>(to));
            for (std::uint64_t i = 0; i < rows.width; ++i) state[i] |= shadow_bit::copied;
        }
    }

    void fill(const Step& step) {
        char* to = place(step.to);
        const int value = static_cast<int>(step.number);
        if (to) work::fill({to, step.to.pitch, value, step.to.width, step.to.height}, 0);
    }

    void launch(Step& step) {
        if (step.number >= kernels.size()) throw BadDocument("a kernel that isn't there");
        const Kernel& kernel = kernels[step.number];
        relocate(step.data, step.pointers);
        alignas(16) static char parameters[32 * 1024];
        if (step.data.size() > sizeof parameters) throw BadDocument("too many parameters");
        std::memcpy(parameters, step.data.data(), step.data.size());
        work::launch({kernel.function, kernel.thunk, kernel.name.c_str(), step.grid, step.block,
                      step.shared, parameters, step.data.size(), 0, step.cooperative},
                     nullptr);
    }

    void run(Step& step) {
        if (samples() && (step.what == Do::fill || step.what == Do::copy)) return;  // gigabytes
        switch (step.what) {
            case Do::alloc: return allocate(buffer(step.number));
            case Do::free: return release(buffer(step.number));
            case Do::fill: return fill(step);
            case Do::copy: return copy(step);
            case Do::upload: return upload(step);
            case Do::launch: return launch(step);
            case Do::order: return set_block_order(step.number, step.backwards);
        }
    }
};

Steps::Steps(const std::string& document, const std::vector<ArgumentMemory>& arguments)
    : content_(new Content{}) {
    Reader reader(document);
    if (reader.number() != magic || reader.number() != version) {
        throw BadDocument("not a document of this version");
    }
    content_->flags = reader.number();
    content_->buffers = reader.list(read_buffer);
    for (Buffer& each : content_->buffers) {
        if (each.kind == Kind::argument && !content_->samples()) place_argument(each, arguments);
        if (each.kind == Kind::symbol) place_symbol(each);
    }
    content_->kernels = reader.list(read_kernel);
    content_->steps = reader.list(read_step);
    if (!reader.at_end()) throw BadDocument("bytes behind the last step");
}

Steps::~Steps() { delete content_; }

bool Steps::wants_counters() const { return content_->flags & counters; }
bool Steps::wants_records() const { return content_->flags & records; }
bool Steps::wants_fresh_variables() const { return content_->flags & fresh_variables; }

void Steps::run() {
    set_block_order(0, false);
    sample_blocks(content_->samples());
    set_undefined_value(content_->flags >> undefined_shift & undefined_mask);
    forget_vast();
    for (Buffer& each : content_->buffers) {
        if (content_->samples() && each.kind == Kind::argument) content_->reserve(each);
    }
    for (Step& step : content_->steps) {
        if (sticky_error()) return;  // the device's context is lost
        content_->run(step);
    }
}

void keep_device_variables() {
    for (const auto& each : device_variables()) {
        char* low = reinterpret_cast<char*>(each.low);
        variables.push_back({low, std::string(low, each.bytes)});
    }
}

void restore_device_variables() {
    for (const Variable& each : variables) {
        std::memcpy(each.low, each.value.data(), each.value.size());
    }
}

}  // namespace warpgrade::executor
