// A plan's beginning and end as JSON; recording.cpp records the steps between.
#include "plan.h"

#include "../device_memory.h"
#include "../device_work.h"
#include "../observe.h"
#include "json.h"
#include "managed.h"
#include "state.h"

namespace warpgrade::plan {

Plan current;

void begin() {
    current = {};
    forget_managed();
}

void add_argument(int argument, const void* low, std::size_t bytes, bool) {
    current.buffers.add(
        {Kind::argument, argument, reinterpret_cast<Address>(low), bytes, "", 0, false, 0, 0});
}

void begin_call() {
    work::settle_copies();
    current.call = current.calls_begun++;
    current.steps = current.uploaded = 0;
    current.read_managed = current.default_works = false;
    current.unjoined.clear();
    current.after_default.clear();
}

void report_left_behind() {
    work::settle_copies();
    for (const Buffer& each : current.buffers) {
        if (!each.is_allocated() || each.freed || each.last_call == current.call) continue;
        report_finding(FindingKind::leak, each.pc, nullptr, 0, nullptr,
                       "a cudaMalloc of %zu bytes is never freed", each.bytes);
    }
}

const std::string& excess() {
    // Host code has seen the error, and may have returned for it.
    if (current.lacked && !current.has_launches) {
        current.excess = "a cudaMalloc of " + number(current.lacked) + " bytes fails, since there are " +
                         number(allocation_limit) + " in all, and nothing is launched after it";
    }
    return current.excess;
}

unsigned read_at() { return current.read_at; }

std::string text() {
    static const char* const kinds[] = {"argument", "device", "managed", "symbol"};
    std::string result = "{\"version\":1,\"language\":\"cuda\",\"buffers\":[";
    for (std::size_t i = 0; i < current.buffers.size(); ++i) {
        const Buffer& each = current.buffers[i];
        result += std::string(i ? ",\n" : "") + "{\"bytes\":" + number(each.bytes) +
                  ",\"argument\":" + (each.argument < 0 ? "null" : number(each.argument)) +
                  ",\"kind\":\"" + kinds[static_cast<int>(each.kind)] +
                  "\",\"name\":" + quoted(each.name.substr(0, 400)) +
                  ",\"line\":" + number(each.line) + "}";
    }
    result += "],\"specialisations\":[";
    for (std::size_t i = 0; i < current.kernels.size(); ++i) {
        const KernelName& each = current.kernels[i];
        result += std::string(i ? ",\n" : "") + "{\"kernel\":" + quoted(each.name) +
                  ",\"line\":" + number(each.line) + "}";
    }
    result += "],\"calls\":[";
    for (std::size_t i = 0; i < current.calls_begun; ++i) {
        result += (i ? ",\n[" : "[") + current.calls[i] + "]";
    }
    return result + "],\"printed\":" + quoted(current.printed) + "}";
}

}  // namespace warpgrade::plan
