// The executor's backend: runs plans on the arena, which is mapped into the emulated device's
// address range. The program has what kernels reach, and no host code of the submission.

#include <memory>
#include <stdexcept>
#include <utility>

#include "../../emulator/runtime/core.h"
#include "../../emulator/runtime/executor/steps.h"
#include "../../emulator/runtime/observe.h"
#include "../../emulator/runtime/records.h"
#include "backend.h"
#include "document.h"
#include "mapping.h"
#include "text.h"

extern "C" {
// There is no entry here.
const warpgrade_entry warpgrade_entries[] = {{nullptr, nullptr, nullptr}};
const unsigned warpgrade_entry_count = 0;
// The target of dynamic shared memory at file scope, from the rewriter.
void* warpgrade_dynamic_shared_reference;
}

namespace warpgrade::host {
namespace {

constexpr std::size_t margin = std::size_t(1) << 26;

struct MappedBuffer {
    Buffer buffer;
    char* device;                   // in the emulated device's address range
    std::unique_ptr<Mapping> host;  // for a tensor in host memory
};
std::vector<MappedBuffer> mapped;
std::string records;  // of the last execution, for `more`

struct Work {
    executor::Steps& steps;
    std::string wrong;  // the document's error
    bool out_of_memory;
};

char* memory_of(const Tensor& tensor) {
    MappedBuffer& each = mapped[tensor.buffer];
    if (!tensor.host_space) return each.device + tensor.offset;
    if (!each.host) {
        each.host = std::make_unique<Mapping>(each.buffer.descriptor, each.buffer.length,
                                              each.buffer.writable, margin);
    }
    return each.host->at(tensor.offset);
}

// Runs on the entry's stack, which nothing may be thrown out of.
void run_steps(void* context) {
    Work& work = *static_cast<Work*>(context);
    try {
        work.steps.run();
    } catch (const BadDocument& error) {
        work.wrong = error.what();
    } catch (const std::bad_alloc&) {
        work.out_of_memory = true;
    }
}

Answer unsupported_answer() {
    const Unsupported* feature = unsupported_feature();
    const unsigned long long pc = feature ? feature->pc - image().base : 0;
    return {Code::not_modelled, "{\"message\": " + quoted(feature ? feature->name : "unknown") +
                                    ", \"pc\": " + std::to_string(pc) + "}"};
}

}  // namespace

void map_buffers(const std::vector<Buffer>& buffers) {
    warpgrade_dynamic_shared_reference = warpgrade_dynamic_shared;
    for (const Buffer& each : buffers) {
        void* device = map_argument_memory(each.descriptor, each.length, each.writable);
        if (!device) throw std::runtime_error("a buffer doesn't fit in the emulated device");
        mapped.push_back({each, static_cast<char*>(device), nullptr});
    }
    initialise_observation();
    executor::keep_device_variables();
}

Answer load() { return {}; }

Answer execute(Call& call, const std::string& document) {
    std::vector<executor::ArgumentMemory> arguments;
    for (const Tensor& tensor : call.tensors) {
        arguments.push_back({tensor.argument, memory_of(tensor), tensor.extent});
    }
    try {
        executor::Steps steps(document, arguments);
        begin_entry(steps.wants_counters(), steps.wants_records());
        if (steps.wants_fresh_variables()) executor::restore_device_variables();
        for (std::size_t i = 0; i < arguments.size(); ++i) {
            const Tensor& tensor = call.tensors[i];
            const Description& told = tensor.description;
            register_argument(tensor.argument, told.name.c_str(), arguments[i].low, tensor.extent,
                              told.initialised, told.writable, tensor.host_space);
        }
        Work work{steps, "", false};
        const EntryEnd end = run_entry(run_steps, &work);
        end_entry(allocation_count());  // leaks are host code's, which the planner reports
        if (end == EntryEnd::unsupported) return unsupported_answer();
        if (!work.wrong.empty()) return answer(Code::bad_request, work.wrong);
        if (work.out_of_memory) return answer(Code::out_of_memory, "device", "no memory left");
        static char report[max_text];
        const bool counted = steps.wants_counters();
        const std::size_t length = write_report(report, sizeof report, counted);
        const bool recorded = steps.wants_records();
        records = recorded ? with_length(written_records()) : "";
        // The process of a lost device ends, but not before it has been asked for its records.
        const bool lost = !recorded && (sticky_error() != 0 || end == EntryEnd::abandoned);
        return {finding_count() ? Code::findings : Code::ok, std::string(report, length), lost};
    } catch (const BadDocument& error) {
        return answer(Code::bad_request, error.what());
    }
}

Answer more_of_text(std::size_t from) { return part_of(records, from); }

}  // namespace warpgrade::host
