// The emulator's backend: the arena is mapped into the emulated device's address range, where
// kernels reach exactly the views of the arguments and nothing beside them. Nothing is copied.

#include <time.h>

#include <memory>
#include <stdexcept>
#include <utility>

#include "../../emulator/runtime/core.h"
#include "../../emulator/runtime/observe.h"
#include "backend.h"
#include "mapping.h"
#include "text.h"

namespace warpgrade::host {
namespace {

// Host code is instrumented: a store outside its own data is found before it happens. The margins
// are for reads, and for what the C library does on its behalf.
constexpr std::size_t margin = std::size_t(1) << 26;

struct MappedBuffer {
    Buffer buffer;
    char* device;                   // in the emulated device's address range
    std::unique_ptr<Mapping> host;  // once a tensor in host memory needs it
};

std::vector<MappedBuffer> mapped;
std::vector<Call> sets;

// A second view of the same memory, at an ordinary address: that of a tensor in host memory.
Mapping& host_view(MappedBuffer& each) {
    if (!each.host) {
        each.host = std::make_unique<Mapping>(each.buffer.descriptor, each.buffer.length,
                                              each.buffer.writable, margin);
    }
    return *each.host;
}

void expose_host_views(const Call& call) {
    for (std::size_t index = 0; index < mapped.size(); ++index) {
        std::vector<std::pair<std::size_t, std::size_t>> ranges;
        for (const Tensor& tensor : call.tensors) {
            if (tensor.buffer == index && tensor.host_space) {
                ranges.emplace_back(tensor.allocation_offset, tensor.allocation_length);
            }
        }
        if (mapped[index].host || !ranges.empty()) host_view(mapped[index]).expose(ranges);
    }
}

// Makes the views of the arguments accessible, and no other byte of the arena.
void place(Call& call) {
    expose_host_views(call);
    for (const Tensor& tensor : call.tensors) {
        MappedBuffer& each = mapped[tensor.buffer];
        void* first = tensor.host_space ? host_view(each).at(tensor.offset)
                                        : each.device + tensor.offset;
        call.values[tensor.argument].pointer = first;
        const Description& told = tensor.description;
        register_argument(tensor.argument, told.name.c_str(), first, tensor.extent,
                          told.initialised, told.writable, tensor.host_space);
    }
}

void call_entry(void* context) {
    const Call& call = *static_cast<const Call*>(context);
    call.entry->call(call.values.data());
}

Answer unsupported_answer() {
    const Unsupported* feature = unsupported_feature();
    const unsigned long long pc = feature ? feature->pc - image().base : 0;
    return {Code::not_modelled, "{\"message\": " + quoted(feature ? feature->name : "unknown") +
                                    ", \"pc\": " + std::to_string(pc) + "}"};
}

}  // namespace

void map_buffers(const std::vector<Buffer>& buffers) {
    for (const Buffer& each : buffers) {
        void* device = map_argument_memory(each.descriptor, each.length, each.writable);
        if (!device) throw std::runtime_error("a buffer doesn't fit in the emulated device");
        mapped.push_back({each, static_cast<char*>(device), nullptr});
    }
}

Answer load() { return {}; }

Answer run(Call& call, bool counters) {
    begin_entry(counters);
    place(call);
    const EntryEnd end = run_entry(call_entry, &call);
    end_entry();
    if (end == EntryEnd::unsupported) return unsupported_answer();
    if (end == EntryEnd::exception) return answer(Code::raised, "C++", "an exception");
    static char report[max_text];
    const std::size_t length = write_report(report, sizeof report, counters);
    const bool lost = sticky_error() != 0 || end == EntryEnd::abandoned;
    return {finding_count() ? Code::found : Code::ok, std::string(report, length), lost};
}

// The times say nothing here, but all else about the clock is what it is on a GPU.
Answer place_set(const Call& call, unsigned number) {
    if (number > sets.size()) return answer(Code::bad_request, "no such set");
    sets.resize(number);
    sets.push_back(call);
    return {};
}

Answer call_sets(unsigned first, unsigned count, std::uint64_t& nanoseconds) {
    if (first > sets.size() || count > sets.size() - first) {
        return answer(Code::bad_request, "no such set");
    }
    timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (unsigned index = first; index < first + count; ++index) {
        Answer called = run(sets[index], false);
        if (called.code != Code::ok) return called;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    nanoseconds = (end.tv_sec - begin.tv_sec) * 1'000'000'000ll + (end.tv_nsec - begin.tv_nsec);
    return {};
}

}  // namespace warpgrade::host
