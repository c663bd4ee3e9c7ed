// A planner's device: work is recorded as steps of a plan and not done. There is no data, so host
// code that reads some gets zeros.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "../device_memory.h"
#include "../device_work.h"
#include "../errors.h"
#include "../host_guard.h"
#include "../memory_api.h"
#include "../observe.h"
#include "../symbols.h"
#include "buffers.h"
#include "json.h"
#include "managed.h"
#include "plan.h"
#include "state.h"

// Kernels are linked but never run; their code needs these symbols.
__thread warpgrade::Index3 warpgrade_block_index asm("blockIdx");
__thread warpgrade::Index3 warpgrade_block_size asm("blockDim") = {1, 1, 1};
__thread warpgrade::Index3 warpgrade_grid_size asm("gridDim") = {1, 1, 1};

extern "C" {
__thread char warpgrade_dynamic_shared[warpgrade_dynamic_shared_bytes]
    __attribute__((aligned(1024)));
}

namespace warpgrade {
namespace {

using plan::base64;
using plan::Buffer;
using plan::Buffers;
using plan::current;
using plan::Kind;
using plan::KernelName;
using plan::number;
using plan::quoted;

constexpr std::size_t most_steps = 20'000;                    // of a call
constexpr std::size_t most_uploaded = std::size_t{1} << 20;   // bytes of a call
constexpr std::size_t most_text = std::size_t{7} << 18;       // bytes of a call
constexpr std::size_t most_printed = 16'000;
constexpr unsigned last_event = 4095;  // lower numbers are the program's own

// ---- Steps --------------------------------------------------------------------------------------

// The grader matches these words (grader/executors/cuda/native_answers.py).
[[noreturn]] void exceed(const std::string& why) {
    current.excess = why + (current.told_of_data ? ", and it copies results to the host" : "");
    abandon_entry(EntryEnd::abandoned);
}

std::string& call_text() { return current.calls[current.call]; }

void add_step(const char* what, const std::string& fields, Address pc) {
    if (++current.steps > most_steps) {
        exceed("the entry asks for more than " + number(most_steps) + " steps in one call");
    }
    if (call_text().size() + fields.size() > most_text) {
        exceed("what the entry asks for takes more than " + number(most_text) + " bytes to write");
    }
    std::string& text = call_text();
    if (!text.empty()) text += ",\n";
    text += std::string("{\"do\":\"") + what + "\"," + fields + (fields.empty() ? "" : ",") +
            "\"line\":" + number(plan::line_of(pc)) + "}";
}

void note_upload(std::size_t bytes) {
    current.uploaded += bytes;
    if (current.uploaded > most_uploaded) {
        exceed("more than " + number(most_uploaded) +
               " bytes go from host code to the device in one call");
    }
}

// ---- Places -------------------------------------------------------------------------------------

std::size_t add_buffer(Buffer buffer) {
    if (current.buffers.size() >= Buffers::most) {
        exceed("the entry uses more than " + number(Buffers::most) + " pieces of memory");
    }
    return current.buffers.add(std::move(buffer));
}

std::string place_of(std::size_t buffer, Address a) {
    current.buffers[buffer].last_call = current.call;
    const auto offset = static_cast<long long>(a - current.buffers[buffer].low);
    return number(static_cast<long long>(buffer)) + "," + number(offset);
}

std::string view(Address a, std::size_t pitch, std::size_t width, std::size_t height) {
    const std::size_t buffer = current.buffers.at(a);
    current.buffers[buffer].last_call = current.call;
    const auto offset = static_cast<long long>(a - current.buffers[buffer].low);
    const bool rows = height > 1;
    return "{\"buffer\":" + number(static_cast<long long>(buffer)) +
           ",\"dtype\":\"uint8\",\"shape\":[" + (rows ? number(height) + "," : "") +
           number(width) + "],\"strides\":[" + (rows ? number(pitch) + "," : "") +
           "1],\"offset\":" + number(offset) + "}";
}

std::string view(const void* p, std::size_t pitch, std::size_t width, std::size_t height) {
    return view(reinterpret_cast<Address>(p), pitch, width, height);
}

// The buffer that the 8 bytes of an address point into or near; none for other bytes.
std::size_t buffer_of_word(const char* data) {
    constexpr Address past_any = Address{1} << 47;
    Address word;
    std::memcpy(&word, data, sizeof word);
    return word < page_bytes || word >= past_any ? Buffers::none : current.buffers.at(word);
}

// Device addresses among some bytes. They are aligned, but in packed structures; there an address
// can't overlap an aligned one.
std::string relocations(const char* data, std::size_t bytes) {
    std::string found;
    for (std::size_t at = 0; at + 8 <= bytes; ++at) {
        const std::size_t next = (at + 7) / 8 * 8;
        const bool overlaps = at < next && next + 8 <= bytes &&
                              buffer_of_word(data + next) != Buffers::none;
        const std::size_t buffer = overlaps ? Buffers::none : buffer_of_word(data + at);
        if (buffer == Buffers::none) continue;
        Address word;
        std::memcpy(&word, data + at, sizeof word);
        found += (found.empty() ? "[" : ",[") + number(at) + "," + place_of(buffer, word) + "]";
        at += 7;
    }
    return "\"pointers\":[" + found + "]";
}

// Host addresses among a kernel's parameters. They aren't relocated, but a kernel's use of one is
// reported as such.
std::string host_pointers(const char* data, std::size_t bytes) {
    std::string found;
    for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
        Address word;
        std::memcpy(&word, data + at, sizeof word);
        if (word < page_bytes || current.buffers.at(word) != Buffers::none) continue;
        if (!describe_host(word)) continue;
        found += (found.empty() ? "" : " ") + number(at);
    }
    return found.empty() ? "" : "\"host_pointers\":" + quoted(found);
}

// An argument in host memory exists in executors: copying it needs no data here.
bool is_host_argument(const void* p) {
    const auto a = reinterpret_cast<Address>(p);
    return std::any_of(current.buffers.begin(), current.buffers.end(), [=](const Buffer& each) {
        return each.kind == Kind::argument && !is_device(reinterpret_cast<void*>(each.low)) &&
               a - each.low < each.bytes;
    });
}

// Whether the device has this memory of the host's, too.
bool is_shared(const void* p) {
    const auto a = reinterpret_cast<Address>(p);
    return std::any_of(current.buffers.begin(), current.buffers.end(), [=](const Buffer& each) {
        return each.kind == Kind::managed && !each.freed && a - each.low < each.bytes;
    });
}

// ---- Kernels ------------------------------------------------------------------------------------

// For a kernel that has a name in the cubin.
std::size_t number_of_symbol(const KernelCall& call) {
    for (std::size_t i = 0; i < current.kernels.size(); ++i) {
        if (current.kernels[i].name == call.symbol) return i;
    }
    current.kernels.push_back({call.symbol, "", "", plan::line_of(call.pc)});
    return current.kernels.size() - 1;
}

std::size_t number_of_kernel(const KernelCall& call) {
    if (call.symbol) return number_of_symbol(call);
    const char* function = call.function ? symbol_of(call.function) : "";
    const char* thunk = symbol_of(reinterpret_cast<const void*>(call.thunk));
    std::size_t namesakes = 0;
    for (std::size_t i = 0; i < current.kernels.size(); ++i) {
        const KernelName& each = current.kernels[i];
        if (each.function == function && each.thunk == thunk) return i;
        const std::string::size_type end = each.name.find('#');
        namesakes += each.name.substr(0, end) == call.name;
    }
    const std::string suffix = namesakes ? "#" + number(namesakes + 1) : "";
    current.kernels.push_back({call.name + suffix, function, thunk, plan::line_of(call.pc)});
    return current.kernels.size() - 1;
}

std::string index(const Index3& each) {
    return "[" + number(each.x) + "," + number(each.y) + "," + number(each.z) + "]";
}

// Further properties of the launch, for executors.
std::string attributes(const KernelCall& call, const KernelName& name) {
    std::string found = host_pointers(call.parameters, call.parameter_bytes);
    if (call.early_start) {
        found += std::string(found.empty() ? "" : ",") +
                 "\"programmatic_stream_serialization\":true";
    }
    if (call.symbol) return "{" + found + "}";
    return "{\"function\":" + quoted(name.function) + ",\"thunk\":" + quoted(name.thunk) +
           (found.empty() ? "" : ",") + found + "}";
}

void wait_for_stream(unsigned waiting, unsigned other, Address pc) {
    const unsigned event = last_event - other;
    work::recorded(event, other, pc);
    work::waited(event, waiting, pc);
}

void join_default(Address pc) {
    for (const unsigned each : current.unjoined) wait_for_stream(0, each, pc);
    current.unjoined.clear();
}

// Implicit waits of the default stream and the others, as records and waits.
void order_after_default(unsigned stream, Address pc) {
    if (stream == 0) {
        join_default(pc);
        current.after_default.clear();
        current.default_works = true;
    } else if (waits_for_default(stream)) {
        const bool is_first = current.after_default.insert(stream).second;
        if (is_first && current.default_works) wait_for_stream(stream, 0, pc);
        current.unjoined.insert(stream);
    }
}

// The stream of a step that isn't a launch; nothing for null.
std::string on_stream(const cudaStream_t* stream, Address pc) {
    if (!stream) return "";
    order_after_default(number_of(*stream), pc);
    return ",\"stream\":" + number(number_of(*stream));
}

void upload_rows(const RowsCopy& copy, Address pc) {
    std::string data;
    for (std::size_t row = 0; row < copy.height; ++row) {
        data.append(copy.from + row * copy.from_pitch, copy.width);
    }
    note_upload(data.size());
    if (copy.is_read_later) {
        current.copies.push_back({copy.from, copy.from_pitch, copy.width, data, pc});
    }
    add_step("upload",
             "\"to\":" + view(copy.to, copy.to_pitch, copy.width, copy.height) + ",\"data\":\"" +
                 base64(data.data(), data.size()) + "\"," + relocations(data.data(), data.size()) +
                 on_stream(copy.stream, pc),
             pc);
}

// Host code's writes to managed memory.
void upload_changes(Address pc) {
    plan::take_changes([=](char* from, std::size_t bytes) {
        upload_rows({from, bytes, from, bytes, bytes, 1, true, false}, pc);
    });
}

constexpr char what_host_code_reads[] =
    "host code reads nothing of what kernels write: they aren't run while a plan is made\n";

// Notes once per plan that a planner has no data.
void tell(bool& told, const char* what) {
    if (!told) work::printed(what, std::strlen(what));
    told = true;
}

// Also into the process's log: host code may end the process for what it reads. The grader matches
// these words (grader/executors/cuda/native_planner.py).
void tell_of_data(Address pc) {
    if (!current.told_of_data) {
        current.read_at = plan::line_of(pc);
        std::fprintf(stderr, "line %u: %s", current.read_at, what_host_code_reads);
    }
    tell(current.told_of_data, what_host_code_reads);
}

// Host code gets zeros: there is no data.
void read_back(const RowsCopy& copy, Address pc) {
    add_step("readback", "\"bytes\":" + number(copy.width * copy.height), pc);
    for (std::size_t row = 0; row < copy.height; ++row) {
        std::memset(copy.to + row * copy.to_pitch, 0, copy.width);
    }
    tell_of_data(pc);
}

void add_allocation(Kind kind, const void* p, std::size_t bytes, const cudaStream_t* stream,
                    Address pc) {
    const std::size_t buffer = add_buffer({kind, -1, reinterpret_cast<Address>(p), bytes,
                                           "", plan::line_of(pc), false, pc, current.call});
    add_step("alloc", "\"buffer\":" + number(buffer) + on_stream(stream, pc), pc);
}

// Pinned memory among a kernel's parameters is the device's as well from then on.
void share_pinned(const KernelCall& call) {
    for (std::size_t at = 0; at + 8 <= call.parameter_bytes; at += 8) {
        char* word;
        std::memcpy(&word, call.parameters + at, sizeof word);
        const api::Pinned pinned = api::pinned_around(reinterpret_cast<Address>(word));
        if (!pinned.bytes || is_shared(word)) continue;
        char* low = reinterpret_cast<char*>(pinned.low);
        if (is_host_argument(low)) {
            unsupported_at("kernels that access an argument in host memory", call.pc);
        }
        add_allocation(Kind::managed, low, pinned.bytes, nullptr, call.pc);
        work::fill({low, pinned.bytes, 0, pinned.bytes, 1}, call.pc);
        plan::add_managed(low, pinned.bytes, false);
    }
}

}  // namespace

void plan::end_call() { join_default(0); }

namespace work {

void launch(const KernelCall& call, cudaStream_t stream) {
    share_pinned(call);
    upload_changes(call.pc);
    plan::device_works();
    order_after_default(number_of(stream), call.pc);
    const std::size_t kernel = number_of_kernel(call);
    const std::string pointers = relocations(call.parameters, call.parameter_bytes);
    const KernelName name = current.kernels[kernel];
    current.has_launches = true;
    add_step("launch",
             "\"specialisation\":" + number(kernel) + ",\"grid\":" + index(call.grid) +
                 ",\"block\":" + index(call.block) + ",\"shared\":" + number(call.dynamic_shared) +
                 ",\"parameters\":\"" + base64(call.parameters, call.parameter_bytes) + "\"," +
                 pointers + ",\"stream\":" + number(number_of(stream)) +
                 (call.cooperative ? ",\"cooperative\":true" : "") +
                 (call.cluster.x ? ",\"cluster\":" + index(call.cluster) : "") +
                 ",\"attributes\":" + attributes(call, name),
             call.pc);
}

void refused(const char* kernel, cudaError_t error, const char* why, Address pc) {
    current.has_launches = true;
    add_step("refused",
             "\"kernel\":" + quoted(std::string(kernel).substr(0, 400)) + ",\"error\":" +
                 quoted(cudaGetErrorName(error)) + ",\"why\":" + quoted(why),
             pc);
}

cudaError_t copy(const RowsCopy& copy, Address pc) {
    upload_changes(pc);
    const auto is_there = [](const void* p) { return is_host_argument(p) || is_shared(p); };
    const bool has_source = copy.from_device || is_there(copy.from);
    const bool has_target = copy.to_device || is_there(copy.to);
    if (has_source && has_target) {
        add_step("copy",
                 "\"to\":" + view(copy.to, copy.to_pitch, copy.width, copy.height) +
                     ",\"from\":" + view(copy.from, copy.from_pitch, copy.width, copy.height) +
                     on_stream(copy.stream, pc),
                 pc);
        return cudaSuccess;
    }
    if (has_target) {
        upload_rows(copy, pc);
        for (std::size_t row = 0; row < copy.height; ++row) {
            plan::put_managed(copy.to + row * copy.to_pitch, copy.from + row * copy.from_pitch,
                              copy.width);
        }
        return cudaSuccess;
    }
    if (copy.from_device) {
        read_back(copy, pc);
        return cudaSuccess;
    }
    for (std::size_t row = 0; row < copy.height; ++row) {
        std::memmove(copy.to + row * copy.to_pitch, copy.from + row * copy.from_pitch, copy.width);
    }
    return cudaSuccess;
}

void fill(const RowsFill& fill, Address pc) {
    upload_changes(pc);
    const int value = static_cast<unsigned char>(fill.value);
    for (std::size_t row = 0; row < fill.height; ++row) {
        plan::fill_managed(fill.to + row * fill.pitch, value, fill.width);
    }
    add_step("fill",
             "\"to\":" + view(fill.to, fill.pitch, fill.width, fill.height) +
                 ",\"value\":" + number(value) + on_stream(fill.stream, pc),
             pc);
}

void allocated(const void* p, size_t bytes, Address pc, bool managed, const cudaStream_t* stream) {
    add_allocation(managed ? Kind::managed : Kind::device, p, bytes, stream, pc);
    if (!managed) return;
    char* low = static_cast<char*>(const_cast<void*>(p));
    plan::add_managed(low, bytes, true);
    fill({low, bytes, 0, bytes, 1}, pc);  // the host's contents
}

// A size that was negative is no GPU's either, and one that fits lacks room for what others took.
void lacked_room(size_t bytes) {
    current.lacked = bytes > allocation_limit && bytes < vast_bytes ? bytes : 0;
}

void freed(const void* p, Address pc, const cudaStream_t* stream) {
    plan::remove_managed(p);
    for (std::size_t i = current.buffers.size(); i-- > 0;) {
        Buffer& each = current.buffers[i];
        const bool is_there = each.is_allocated() && !each.freed;  // pinned memory may never be
        if (!is_there || each.low != reinterpret_cast<Address>(p)) continue;
        each.freed = true;
        add_step("free", "\"buffer\":" + number(i) + on_stream(stream, pc), pc);
        return;
    }
}

void recorded(unsigned event, unsigned stream, Address pc) {
    add_step("record", "\"event\":" + number(event) + ",\"stream\":" + number(stream), pc);
}
void waited(unsigned event, unsigned stream, Address pc) {
    add_step("wait", "\"event\":" + number(event) + ",\"stream\":" + number(stream), pc);
}
void synchronised(Address pc) {
    settle_copies();
    add_step("synchronise", "", pc);
}
void awaited_stream(unsigned stream, Address pc) {
    settle_copies();
    if (!stream) order_after_default(stream, pc);
    add_step("synchronise", "\"stream\":" + number(stream), pc);
}
void awaited_event(unsigned event, Address pc) {
    settle_copies();
    add_step("synchronise", "\"event\":" + number(event), pc);
}

void settle_copies() {
    for (const plan::CopyUnderWay& each : current.copies) {
        const char* from = each.from;
        for (std::size_t at = 0; at < each.rows.size(); at += each.width, from += each.pitch) {
            if (!std::memcmp(from, each.rows.data() + at, each.width)) continue;
            report_finding(FindingKind::changed_while_copied, each.pc, nullptr, 0, nullptr,
                           "%zu bytes of a cudaMallocHost", each.rows.size());
            break;
        }
    }
    current.copies.clear();
}

void read_managed(Address a, size_t bytes, Address pc) {
    if (!plan::may_be_written(a) || current.read_managed) return;
    current.read_managed = true;
    add_step("readback", "\"bytes\":" + number(bytes), pc);
    tell_of_data(pc);
}

bool open_managed(Address a, bool store, Address pc) {
    if (!plan::open_managed_again(a)) return false;
    if (!store) read_managed(a, 1, pc);
    return true;
}

Address place_of(Address instruction) { return plan::row_of(instruction); }

void asked_for_time() {
    tell(current.told_of_time,
         "cudaEventElapsedTime gives 0: kernels aren't run while a plan is made\n");
}

void printed(const char* text, size_t length) {
    if (current.call > 0) return;  // the second call prints the same
    const std::size_t room = most_printed - std::min(most_printed, current.printed.size());
    current.printed.append(text, std::min(room, length));
}

}  // namespace work

}  // namespace warpgrade
