// Checks memory accesses of the submission's host code. Its loads and stores are instrumented, so a
// stray store is detected before it happens. The C library's accesses on its behalf hit the
// inaccessible pages of device memory, and the handler below reports them.
#include "host_guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "../include/warpgrade/device_api.h"
#include "device_memory.h"
#include "device_work.h"
#include "findings.h"
#include "hooks.h"
#include "observe.h"
#include "once.h"
#include "symbols.h"
#include "whereabouts.h"

namespace warpgrade {
namespace {

constexpr std::size_t margin = 1 << 20;  // an access this near to an argument is said to miss it

struct HostArgument {
    char name[120];
    Address low;
    std::size_t bytes;
    bool writable;

    bool holds(Address a, std::size_t n) const {
        return a >= low && a - low <= bytes && n <= bytes - (a - low);
    }
    bool is_near(Address a) const { return a >= low - margin && a < low + bytes + margin; }
};

std::vector<HostArgument> host_arguments;
Address process_stack_high;
bool abandoned;

const HostArgument* argument_holding(Address a, std::size_t bytes) {
    for (const HostArgument& each : host_arguments) {
        if (each.holds(a, bytes)) return &each;
    }
    return nullptr;
}

const HostArgument* argument_near(Address a) {
    for (const HostArgument& each : host_arguments) {
        if (each.is_near(a)) return &each;
    }
    return nullptr;
}

// From the running function's own frame up: these are the student's frames. Outside the entry
// (constructors of static objects) it is the process's stack.
bool on_stack(Address a, std::size_t bytes) {
    Address low = reinterpret_cast<Address>(__builtin_frame_address(0));
    Address high = entry_running() ? entry_stack_low + entry_stack_size : process_stack_high;
    return a >= low && a < high && bytes <= high - a;
}

bool may_store(Address a, std::size_t bytes) {
    if (on_stack(a, bytes) || in_student_heap(a, bytes) || in_student_data(a, bytes)) return true;
    if (a == reinterpret_cast<Address>(&errno)) return bytes <= sizeof errno;
    const void* of_call_once[] = {&warpgrade__ZSt15__once_callable, &warpgrade__ZSt11__once_call};
    for (const void* each : of_call_once) {
        if (a == reinterpret_cast<Address>(each)) return bytes <= sizeof each;
    }
    return false;
}

[[noreturn]] void fail(FindingKind kind, Address pc, const char* text) {
    add_finding(kind, pc, host_code(), 0, nullptr, text);
    abandon_from_host();
}

bool is_device_variable(Address a) {
    return device_variables_are_known() && in_image(a) && shadow && shadow[image_offset(a)];
}

void check_near_argument(Address a, std::size_t bytes, bool store, Address pc) {
    if (const HostArgument* inside = argument_holding(a, bytes)) {
        if (!store || inside->writable) return;
        char text[300];
        std::snprintf(text, sizeof text, "%zu bytes at offset %zu of %s", bytes, a - inside->low,
                      inside->name);
        fail(FindingKind::write_to_input, pc, text);
    }
    const HostArgument& missed = *argument_near(a);
    char text[300];
    if (a < missed.low) {
        std::snprintf(text, sizeof text, "%zu bytes, %zu bytes before the start of %s", bytes,
                      missed.low - a, missed.name);
    } else {
        std::snprintf(text, sizeof text, "%zu bytes at offset %zu of %s, which has %zu bytes",
                      bytes, a - missed.low, missed.name, missed.bytes);
    }
    fail(store ? FindingKind::out_of_bounds_write : FindingKind::out_of_bounds_read, pc, text);
}

// ---- Faults -------------------------------------------------------------------------------------

Address program_counter(const ucontext_t& context) {
#if defined(__x86_64__)
    return static_cast<Address>(context.uc_mcontext.gregs[REG_RIP]);
#else
    return static_cast<Address>(context.uc_mcontext.pc);
#endif
}

Address stack_pointer(const ucontext_t& context) {
#if defined(__x86_64__)
    return static_cast<Address>(context.uc_mcontext.gregs[REG_RSP]);
#else
    return static_cast<Address>(context.uc_mcontext.sp);
#endif
}

#if defined(__x86_64__)
// Whether an instruction that writes memory is a plain move, unlike `add`, which reads first.
bool is_move(const unsigned char* code) {
    constexpr unsigned char prefixes[] = {0x66, 0xf2, 0xf3};
    while (std::memchr(prefixes, *code, sizeof prefixes) || (*code & 0xf0) == 0x40) ++code;
    constexpr unsigned char moves[] = {0x88, 0x89, 0xc6, 0xc7, 0xa4, 0xa5, 0xaa, 0xab};
    constexpr unsigned char of_vectors[] = {0x11, 0x13, 0x17, 0x29, 0x2b, 0x7f, 0xc3, 0xd6, 0xe7};
    if (*code == 0x0f) return std::memchr(of_vectors, code[1], sizeof of_vectors);
    return std::memchr(moves, *code, sizeof moves);
}
#endif

// Whether an instruction of host code stores where it faulted without reading there.
bool is_store(const ucontext_t& context) {
#if defined(__x86_64__)
    constexpr greg_t wrote = 2;  // in the processor's error code
    return (context.uc_mcontext.gregs[REG_ERR] & wrote) &&
           is_move(reinterpret_cast<const unsigned char*>(program_counter(context)));
#else
    return false;
#endif
}

// The student's call of the library function that faulted: the first word on the stack that points
// into the executable, or 0.
Address caller_of(const ucontext_t& context) {
    Address pc = program_counter(context);
    if (in_image(pc)) return work::place_of(pc);
    constexpr int words = 256;
    auto* word = reinterpret_cast<const Address*>(stack_pointer(context));
    for (int i = 0; i < words && on_stack(reinterpret_cast<Address>(word + i), sizeof *word); ++i) {
        if (in_image(word[i])) return word[i];
    }
    return 0;
}

void on_device_fault(Address a, const ucontext_t& context) {
    Description place = describe_global(global_offset(a), 1);
    const bool by_library = !in_image(program_counter(context));
    const char* who = by_library ? "a library function of the host touches " : "";
    report_finding(FindingKind::device_pointer_on_host, caller_of(context), nullptr, 0, nullptr,
                   "%s%s", who, place.text);
    abandon_from_host();
}

void on_fault(int signal_number, siginfo_t* info, void* context) {
    Address a = reinterpret_cast<Address>(info->si_addr);
    if (current_thread && in_stack_guard(a)) {
        if (attention) settle(NextEvent::other);
        warpgrade_unsupported("more than 60 KiB of local memory in one thread, as of a large array "
                              "or a function that calls itself without end");
    }
    if (current_thread && attention) settle(NextEvent::other);
    if (!current_thread && entry_running() && in_arena(a)) {
        const ucontext_t& there = *static_cast<const ucontext_t*>(context);
        if (work::open_managed(a, is_store(there), caller_of(there))) return;
        on_device_fault(a, there);
    }
    signal(signal_number, SIG_DFL);  // it recurs, and ends the process
}

void install_handler() {
    static char stack[64 * 1024];
    stack_t alternative{};
    alternative.ss_sp = stack;
    alternative.ss_size = sizeof stack;
    sigaltstack(&alternative, nullptr);
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    // Without SA_NODEFER the signal would stay blocked, since the handler may leave by switching
    // stacks.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
    answer_where();
}

}  // namespace

void initialise_host_guard() {
    pthread_attr_t attributes;
    void* low;
    size_t size;
    if (!pthread_getattr_np(pthread_self(), &attributes)) {
        pthread_attr_getstack(&attributes, &low, &size);
        process_stack_high = reinterpret_cast<Address>(low) + size;
        pthread_attr_destroy(&attributes);
    }
    install_handler();
}

void add_host_argument(const char* name, Address a, std::size_t bytes, bool writable) {
    HostArgument next{{}, a, bytes, writable};
    std::snprintf(next.name, sizeof next.name, "%s", name);
    host_arguments.push_back(next);
}

void forget_host_arguments() { host_arguments.clear(); }

bool entry_was_abandoned() { return abandoned; }

void abandon_from_host() {
    abandoned = true;
    abandon_entry(EntryEnd::abandoned);
}

void check_host_access(Address a, std::size_t bytes, bool store, Address pc) {
    if (store && may_store(a, bytes) && !is_device_variable(a)) return;
    if (!store) work::read_managed(a, bytes, pc);  // or pinned memory that a kernel was given
    if (is_managed(a, bytes)) return;
    if (in_arena(a) || is_device_variable(a)) {
        Description place = describe_global(global_offset(a), bytes);
        fail(FindingKind::device_pointer_on_host, pc, place.text);
    }
    if (argument_near(a)) return check_near_argument(a, bytes, store, pc);
    if (!store) return;
    char text[100];
    std::snprintf(text, sizeof text, "%zu bytes outside everything that it owns", bytes);
    fail(FindingKind::stray_host_store, pc, text);
}

bool is_host_memory(const void* p, std::size_t n) {
    return is_student_memory(p, n) || argument_holding(reinterpret_cast<Address>(p), n);
}

bool is_student_memory(const void* p, std::size_t n) {
    Address a = reinterpret_cast<Address>(p);
    const HostArgument* argument = argument_holding(a, n);
    return argument ? argument->writable : may_store(a, n);
}

const char* describe_host(Address a) {
    static char text[160];
    if (const HostArgument* argument = argument_holding(a, 1)) {
        std::snprintf(text, sizeof text, "%s, which is in host memory", argument->name);
        return text;
    }
    if (in_student_heap(a, 1)) return "host memory from malloc, new or a container";
    if (a - entry_stack_low < entry_stack_size) return "a local variable of the host code";
    return in_student_data(a, 1) ? "a global variable of the host code" : nullptr;
}

}  // namespace warpgrade
