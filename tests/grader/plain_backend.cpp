// A backend without a device, to test the native host by: entries run on the CPU, in the arena.

#include <time.h>

#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "backend.h"
#include "mapping.h"
#include "text.h"

namespace warpgrade::host {
namespace {

std::vector<Mapping> mappings;
std::vector<Call> sets;

}  // namespace

void map_buffers(const std::vector<Buffer>& buffers) {
    for (const Buffer& buffer : buffers) {
        mappings.emplace_back(buffer.descriptor, buffer.length, buffer.writable, 1 << 20);
    }
}

Answer load() { return {}; }

Answer run(Call& call) {
    if (std::string(call.entry->name) == "loses") return {Code::device_failed, "{}", true};
    if (std::string(call.entry->name) == "babbles") return {Code::ok, std::string(1 << 20, 'x')};
    for (std::size_t index = 0; index < mappings.size(); ++index) {
        std::vector<std::pair<std::size_t, std::size_t>> ranges;
        for (const Tensor& tensor : call.tensors) {
            if (tensor.buffer == index) {
                ranges.emplace_back(tensor.allocation_offset, tensor.allocation_length);
            }
        }
        mappings[index].expose(ranges);
    }
    for (const Tensor& tensor : call.tensors) {
        call.values[tensor.argument].pointer = mappings[tensor.buffer].at(tensor.offset);
    }
    call.entry->call(call.values.data());
    std::string told;
    for (const Tensor& tensor : call.tensors) {
        told += (told.empty() ? "{" : ", ") + quoted(tensor.description.name) + ": " + std::to_string(tensor.extent);
    }
    return {Code::ok, told.empty() ? "{}" : told + "}"};
}

Answer place_set(const Call& call, unsigned number) {
    if (number > sets.size()) return answer(Code::bad_request, "no such set");
    sets.resize(number);
    sets.push_back(call);
    for (const Tensor& tensor : call.tensors) {
        sets.back().values[tensor.argument].pointer = mappings[tensor.buffer].at(tensor.offset);
    }
    return {};
}

Answer call_sets(unsigned first, unsigned count, std::uint64_t& nanoseconds) {
    if (first > sets.size() || count > sets.size() - first) {
        return answer(Code::bad_request, "no such set");
    }
    timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (unsigned index = first; index < first + count; ++index) {
        sets[index].entry->call(sets[index].values.data());
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    nanoseconds = (end.tv_sec - begin.tv_sec) * 1000000000ll + (end.tv_nsec - begin.tv_nsec);
    return {};
}

}  // namespace warpgrade::host

static void add_one(const warpgrade_value* values) {
    const float* input = static_cast<const float*>(values[0].pointer);
    float* output = static_cast<float*>(values[1].pointer);
    for (int index = 0; index < values[2].integer; ++index) output[index] = input[index] + 1;
}

static void scalars(const warpgrade_value* values) {
    double* output = static_cast<double*>(values[0].pointer);
    output[0] = values[1].float32;
    output[1] = values[2].boolean ? 1 : 0;
    output[2] = static_cast<double>(values[3].long_integer);
    output[3] = values[4].float64;
}

static void stray(const warpgrade_value* values) {
    static_cast<float*>(values[0].pointer)[1 << 17] = 1;
}
static void write_input(const warpgrade_value* values) {
    *static_cast<float*>(values[0].pointer) = 1;
}
static void throws(const warpgrade_value*) { throw std::runtime_error("a \"quoted\"\nreason"); }
static void aborts(const warpgrade_value*) { std::abort(); }
static void nothing(const warpgrade_value*) {}  // the backend answers for it
static void leaves(const warpgrade_value*) { std::exit(3); }

// The CUDA solution of silu and ways to fail beside it, for the clock.
static float silu_of(float x) { return x / (1.0f + std::exp(-x)); }
static void silu_but(const warpgrade_value* values, int from, int left_out, int more) {
    const float* input = static_cast<const float*>(values[0].pointer);
    float* output = static_cast<float*>(values[1].pointer);
    for (int index = 0; index < values[2].integer; ++index) {
        if (index != left_out) output[index] = silu_of(input[(index + from) % values[2].integer]);
    }
    for (int index = 0; index < more; ++index) output[values[2].integer + index] = 1;
}
static void silu(const warpgrade_value* values) { silu_but(values, 0, -1, 0); }
static void leaves_one_out(const warpgrade_value* values) {
    silu_but(values, 0, values[2].integer / 2, 0);
}
static void is_wrong(const warpgrade_value* values) { silu_but(values, 1, -1, 0); }
static void writes_past_the_end(const warpgrade_value* values) { silu_but(values, 0, -1, 1); }
static void never_returns(const warpgrade_value*) {
    for (volatile int forever = 1; forever;) {}
}
static void ends_the_process(const warpgrade_value*) { __builtin_trap(); }

extern "C" {
const warpgrade_entry warpgrade_entries[] = {
    {"add_one", "ppi", add_one}, {"scalars", "pfbld", scalars}, {"stray", "p", stray},
    {"write_input", "p", write_input}, {"throws", "", throws}, {"aborts", "", aborts},
    {"leaves", "", leaves}, {"loses", "", nothing}, {"babbles", "", nothing},
    {"silu", "ppi", silu}, {"leaves_one_out", "ppi", leaves_one_out},
    {"is_wrong", "ppi", is_wrong}, {"writes_past_the_end", "ppi", writes_past_the_end},
    {"never_returns", "ppi", never_returns}, {"ends_the_process", "ppi", ends_the_process},
};
const unsigned warpgrade_entry_count = 15;
}
