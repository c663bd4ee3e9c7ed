// A backend without a device, to test the native host by. As a planner it calls entries, on the CPU
// and without data; as an executor it does on the arena what a document names.

#include <cstdlib>
#include <map>
#include <stdexcept>
#include <utility>

#include "arguments.h"
#include "backend.h"
#include "mapping.h"
#include "text.h"

namespace warpgrade::host {
namespace {

std::vector<Mapping> mappings;
std::vector<Call> sets;
std::vector<unsigned> arranged;
std::string adopted;

float* first(const Call& call, std::size_t number) {
    const Tensor& tensor = call.tensors.at(number);
    return reinterpret_cast<float*>(mappings[tensor.buffer].at(tensor.offset));
}

// Kernels, by the name that a document holds.
void add_one(const Call& call) {
    const std::size_t count = call.tensors.at(1).extent / sizeof(float);
    for (std::size_t index = 0; index < count; ++index) {
        first(call, 1)[index] = first(call, 0)[index] + 1;
    }
}
void stray(const Call& call) { first(call, 0)[1 << 17] = 1; }
void write_input(const Call& call) { *first(call, 0) = 1; }

const std::map<std::string, void (*)(const Call&)> kernels{
    {"add_one", add_one}, {"stray", stray}, {"write_input", write_input}};

Answer launch(const std::string& name, const Call& call) {
    if (name == "loses") return {Code::device_failed, "{}", true};
    const auto found = kernels.find(name);
    if (found == kernels.end()) throw BadRequest("no such kernel");
    found->second(call);
    return {};
}

}  // namespace

std::string told;  // by an entry: what the planner answers

void map_buffers(const std::vector<Buffer>& buffers) {
    for (const Buffer& buffer : buffers) {
        mappings.emplace_back(buffer.descriptor, buffer.length, buffer.writable, 1 << 20);
    }
}

Answer load() { return {}; }

Answer make_plan(Call& call) {
    told.clear();
    call.entry->call(call.values.data());
    for (const Tensor& tensor : call.tensors) {
        told += tensor.description.name + " " + std::to_string(tensor.extent) + "\n";
    }
    return {Code::ok, told};
}

Answer more_of_text(std::size_t from) { return {Code::ok, told.substr(std::min(from, told.size()))}; }

Answer execute(Call& call, const std::string& document) {
    for (std::size_t index = 0; index < mappings.size(); ++index) {
        std::vector<std::pair<std::size_t, std::size_t>> ranges;
        for (const Tensor& tensor : call.tensors) {
            if (tensor.buffer == index) {
                ranges.emplace_back(tensor.allocation_offset, tensor.allocation_length);
            }
        }
        mappings[index].expose(ranges);
    }
    return launch(document, call);
}

Answer place_set(const Call& call, unsigned number) {
    if (number > sets.size()) return answer(Code::bad_request, "no such set");
    sets.resize(number);
    sets.push_back(call);
    return {};
}

Answer adopt(const std::string& document) {
    adopted = document;
    return {};
}

Answer arrange(const std::vector<unsigned>& order) {
    for (unsigned number : order) {
        if (number >= sets.size()) throw BadRequest("no such set");
    }
    arranged = order;
    return {};
}

Answer replay(bool with_calls, std::uint64_t& nanoseconds) {
    for (unsigned number : with_calls ? arranged : std::vector<unsigned>()) {
        const Answer done = launch(adopted, sets[number]);
        if (done.code != Code::ok) return done;
        nanoseconds += 1000;
    }
    return {};
}

}  // namespace warpgrade::host

using warpgrade::host::told;

static void plan_two(const warpgrade_value* values) {
    told = "n " + std::to_string(values[2].integer) + "\n";
}
static void scalars(const warpgrade_value* values) {
    char text[200];
    std::snprintf(text, sizeof text, "%a %d %lld %a\n", double(values[0].float32),
                  int(values[1].boolean), values[2].long_integer, values[3].float64);
    told = text;
}
static void throws(const warpgrade_value*) { throw std::runtime_error("a \"quoted\"\nreason"); }
static void throws_a_number(const warpgrade_value*) { throw 3; }
static void aborts(const warpgrade_value*) { std::abort(); }
static void leaves(const warpgrade_value*) { std::exit(3); }
static void babbles(const warpgrade_value*) { told = std::string(1 << 20, 'x'); }

extern "C" {
const warpgrade_entry warpgrade_entries[] = {
    {"plan_two", "ppi", plan_two}, {"scalars", "fbld", scalars}, {"throws", "", throws},
    {"throws_a_number", "", throws_a_number}, {"aborts", "", aborts}, {"leaves", "", leaves},
    {"babbles", "", babbles},
};
const unsigned warpgrade_entry_count = 7;
}
