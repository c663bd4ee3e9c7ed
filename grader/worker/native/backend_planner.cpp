// The planner's backend: the entry is called without data, and its requests to the device become a
// plan (../../emulator/runtime/planner/). Device arguments are addresses that can't be accessed.
// Arguments in host memory are real: the grader's buffer if there is one, else zeros.

#include <sys/mman.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "../../emulator/runtime/core.h"
#include "../../emulator/runtime/observe.h"
#include "../../emulator/runtime/planner/plan.h"
#include "backend.h"
#include "mapping.h"
#include "text.h"

// The linker's names for the start and end of sections. Our own objects' sections are renamed to
// warpgrade_data and warpgrade_bss (emulator/runtime/observe.h), behind host code's.
extern "C" {
extern char __data_start __attribute__((weak)), __start_warpgrade_data __attribute__((weak));
extern char __bss_start __attribute__((weak)), __start_warpgrade_bss __attribute__((weak));
}

namespace warpgrade::host {
namespace {

constexpr std::size_t margin = std::size_t(1) << 26;  // around host memory: see Mapping
constexpr std::size_t calls = 2;

std::vector<Buffer> given;
std::map<std::size_t, std::unique_ptr<Mapping>> mapped;  // by the buffer's index
std::string long_text;  // of the last plan, for `more`
std::string variables_at_first;  // of host code, after loading

// Zeros between inaccessible margins, for the life of the process: host code may keep the pointer
// for its second call.
void* zeros(std::size_t bytes) {
    char* p = static_cast<char*>(mmap(nullptr, bytes + 2 * margin, PROT_NONE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (p == MAP_FAILED || mprotect(p + margin, bytes, PROT_READ | PROT_WRITE)) {
        throw std::runtime_error("an argument doesn't fit in memory");
    }
    return p + margin;
}

// Host code's variables, as bytes; empty where they can't be distinguished from ours.
std::string variables() {
    const char *data = &__data_start, *data_end = &__start_warpgrade_data;
    const char *zeroed = &__bss_start, *zeroed_end = &__start_warpgrade_bss;
    if (!data || !zeroed || data > data_end || zeroed > zeroed_end) return {};
    std::string bytes(data, data_end);
    return bytes.append(zeroed, zeroed_end);
}

void* host_memory(const Tensor& tensor) {
    if (tensor.buffer >= given.size()) return zeros(tensor.extent);
    const Buffer& buffer = given[tensor.buffer];
    auto& mapping = mapped[tensor.buffer];
    if (!mapping) {
        mapping =
            std::make_unique<Mapping>(buffer.descriptor, buffer.length, buffer.writable, margin);
    }
    return mapping->at(tensor.offset);
}

// False where the arguments don't fit.
bool place(Call& call) {
    constexpr std::size_t alignment = 256;  // of arguments, which keep their offsets below it
    for (const Tensor& tensor : call.tensors) {
        void* first = tensor.host_space
                          ? host_memory(tensor)
                          : reserve_argument_memory(tensor.extent, tensor.offset % alignment);
        if (!first) return false;
        call.values[tensor.argument].pointer = first;
        const Description& told = tensor.description;
        register_argument(tensor.argument, told.name.c_str(), first, tensor.extent,
                          told.initialised, told.writable, tensor.host_space);
        plan::add_argument(tensor.argument, first, tensor.extent, tensor.host_space);
    }
    return true;
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

void map_buffers(const std::vector<Buffer>& buffers) { given = buffers; }

// Also called when the grader turns to another entry: the state at first is that of the start.
Answer load() {
    static bool is_loaded = false;
    if (!is_loaded) variables_at_first = variables();
    is_loaded = true;
    return {};
}

// Findings about host code are the answer, if there are any; `more` then gives the plan.
Answer make_plan(Call& call) {
    // State of an earlier plan may make this one differ from the first of a fresh process.
    if (variables_at_first.empty() ? !long_text.empty() : variables() != variables_at_first) {
        return answer(Code::raised, "KeptState", "an earlier plan has changed variables");
    }
    long_text.clear();
    begin_entry(false);
    forget_reserved_memory();
    plan::begin();
    if (!place(call)) {
        return {Code::not_modelled, "{\"message\": \"so much memory in its arguments\"}"};
    }
    EntryEnd end = EntryEnd::returned;
    std::size_t before = 0;
    for (std::size_t each = 0; each < calls && end == EntryEnd::returned; ++each) {
        before = allocation_count();
        plan::begin_call();
        end = run_entry(call_entry, &call, each == 0);
        if (end == EntryEnd::returned) plan::end_call();
    }
    end_entry(before);  // the first call's allocations may be kept for later ones
    if (end == EntryEnd::returned && !finding_count()) plan::report_left_behind();
    if (end == EntryEnd::unsupported) return unsupported_answer();
    if (end == EntryEnd::exception) {
        return {Code::raised, "{\"type\": \"C++\", \"message\": " + quoted(entry_exception()) +
                                  ", \"read_at\": " + std::to_string(plan::read_at()) + "}"};
    }
    if (!plan::excess().empty()) return answer(Code::raised, "Plan", plan::excess());
    long_text = with_length(plan::text());
    if (finding_count()) {
        static char report[max_text];
        const std::size_t size = write_report(report, sizeof report, false);
        return {Code::findings, std::string(report, size), end == EntryEnd::abandoned};
    }
    return more_of_text(0);
}

Answer more_of_text(std::size_t from) { return part_of(long_text, from); }

}  // namespace warpgrade::host
