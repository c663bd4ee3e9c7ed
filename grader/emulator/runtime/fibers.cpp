#include "fibers.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#if !defined(__x86_64__)
#error "the emulator's fibers are written for x86-64"
#endif

// In the System V calling convention, rbx, rbp and r12-r15 survive a call, so only they and the
// stack pointer have to be saved.
asm(R"(
.text
.globl warpgrade_switch
.type warpgrade_switch, @function
warpgrade_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size warpgrade_switch, .-warpgrade_switch
)");

namespace warpgrade {

void* prepare_fiber(Address top, void (*main)()) {
    constexpr int saved_registers = 6;
    auto* word = reinterpret_cast<uint64_t*>(top & ~Address{15});
    *--word = 0;  // main's return address: unwinding stops; also aligns the stack for main
    *--word = reinterpret_cast<uint64_t>(main);
    for (int i = 0; i < saved_registers; ++i) *--word = 0;
    return word;
}

Address map_stacks(size_t count, size_t bytes) {
    void* low = mmap(nullptr, count * bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (low == MAP_FAILED) {
        std::perror("warpgrade: no memory for the stacks of a block");
        std::abort();
    }
    for (size_t i = 0; i < count; ++i) {
        mprotect(static_cast<char*>(low) + i * bytes, guard_bytes, PROT_NONE);
    }
    return reinterpret_cast<Address>(low);
}

}  // namespace warpgrade
