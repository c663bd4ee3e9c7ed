// The student's host function runs on a stack of its own, so that it can be left at any moment: its
// frames are simply never resumed.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "../include/warpgrade/device_api.h"
#include "errors.h"
#include "fibers.h"
#include "observe.h"

namespace warpgrade {

Address entry_stack_low;
size_t entry_stack_size;

namespace {

constexpr size_t entry_stack_bytes = 8 * 1024 * 1024;

void (*entry_function)(void*);
void* entry_context;
void* outside;  // to resume run_entry's caller
EntryEnd entry_end;
bool running;
Unsupported unsupported;
char thrown[400];

void entry_main() {
    EntryEnd end = EntryEnd::returned;
    try {
        entry_function(entry_context);
    } catch (const std::exception& error) {
        end = EntryEnd::exception;
        std::snprintf(thrown, sizeof thrown, "%s", error.what());
    } catch (...) {
        end = EntryEnd::exception;
        std::snprintf(thrown, sizeof thrown, "an exception");
    }
    entry_end = end;
    void* forgotten;
    warpgrade_switch(&forgotten, outside);
}

}  // namespace

EntryEnd run_entry(void (*function)(void*), void* context, bool fresh) {
    if (!entry_stack_low) {
        entry_stack_low = map_stacks(1, entry_stack_bytes);
        entry_stack_size = entry_stack_bytes;
    }
    if (fresh) reset_execution();
    entry_function = function;
    entry_context = context;
    running = true;
    warpgrade_switch(&outside, prepare_fiber(entry_stack_low + entry_stack_size, entry_main));
    running = false;
    return entry_end;
}

void abandon_entry(EntryEnd end) {
    if (!running) {
        // Student code outside its entry: a constructor or a destructor of a static object.
        if (unsupported.name[0]) std::fprintf(stderr, "unsupported: %s\n", unsupported.name);
        std::abort();
    }
    current_thread = nullptr;
    if (current_launch) {
        observe_launch_end();
        current_launch = nullptr;
    }
    entry_end = end;
    void* forgotten;
    warpgrade_switch(&forgotten, outside);
    __builtin_unreachable();
}

bool entry_running() { return running; }

const char* entry_exception() { return thrown; }

const Unsupported* unsupported_feature() { return unsupported.name[0] ? &unsupported : nullptr; }

void forget_unsupported() { unsupported = {}; }

void unsupported_at(const char* name, Address pc) {
    std::snprintf(unsupported.name, sizeof unsupported.name, "%s", name);
    unsupported.pc = pc;
    abandon_entry(EntryEnd::unsupported);
}

}  // namespace warpgrade

extern "C" void warpgrade_unsupported(const char* name) {
    warpgrade::unsupported_at(name, WARPGRADE_CALLER);
}
