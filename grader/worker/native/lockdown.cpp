// The last filter: seccomp rules that allow only what a running kernel needs.
//
// It can't be installed before exec, which needs more (opening and mapping libc), and main() is too
// late, since constructors of the student's file run before it. A function in .preinit_array runs
// when libraries are mapped and relocated, but before any object's constructors (System V ABI,
// "Initialization and Termination Functions"). Two things run earlier or at the same time:
// resolvers of ifunc symbols, and .preinit_array entries of the student's own object. The check of
// the object (grader/emulator/objects.py) refuses both. Until then the filter inherited from the
// parent holds.
//
// The filter is an array of struct sock_filter in hexadecimal, in the argument `--filter=...`;
// without it nothing is installed. The grader compiles it. It must allow the emulated process's
// calls from here on:
//
//
//     read recvfrom recvmsg write writev sendto sendmsg close fstat newfstatat   socket, log, stdio
//     mmap munmap mprotect mremap madvise brk                                    memory
//     rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack                       fault handlers
//     futex clock_gettime clock_nanosleep sched_yield getrandom                  C library
//     getpid gettid tgkill exit exit_group restart_syscall                       abort, exit
//     openat pread64 prlimit64 sched_getaffinity                                 emulator's start
//
// openat only for reading (flags without O_WRONLY, O_RDWR and O_CREAT): the emulator reads the
// symbols of its own program, and the C library the map of its own memory to find the stack.
// (lseek and ioctl may fail with an error: stdio tests whether the log is a terminal, and goes on.)
// A process on a GPU needs what the driver needs, for which no short list suffices: it only has the
// inherited filter.

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace {

constexpr char option[] = "--filter=";
constexpr std::size_t max_instructions = 4096;  // BPF_MAXINSNS

// Static: constructors haven't run, so nothing here may use the heap or the C++ library.
unsigned char program[max_instructions * sizeof(sock_filter)];

[[noreturn]] void refuse(const char* why) {
    // No worker is better than an open one.
    [[maybe_unused]] ssize_t written = write(STDERR_FILENO, why, std::strlen(why));
    _exit(70);
}

int digit(char letter) {
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    return -1;
}

// The number of instructions that were read into `program`.
std::size_t read_program(const char* text) {
    const std::size_t bytes = std::strlen(text) / 2;
    if (std::strlen(text) % 2 || bytes % sizeof(sock_filter) || bytes > sizeof program || !bytes) {
        refuse("--filter: not an array of seccomp instructions\n");
    }
    for (std::size_t index = 0; index < bytes; ++index) {
        const int high = digit(text[2 * index]), low = digit(text[2 * index + 1]);
        if (high < 0 || low < 0) refuse("--filter: not hexadecimal\n");
        program[index] = static_cast<unsigned char>(high << 4 | low);
    }
    return bytes / sizeof(sock_filter);
}

void lock_down(int count, char** arguments, char**) {
    if (count < 2 || std::strncmp(arguments[1], option, sizeof option - 1) != 0) return;
    sock_fprog filter{};
    filter.len = static_cast<unsigned short>(read_program(arguments[1] + sizeof option - 1));
    filter.filter = reinterpret_cast<sock_filter*>(program);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) refuse("--filter: no_new_privs refused\n");
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &filter)) {
        refuse("--filter: refused by the kernel\n");
    }
}

using Initialiser = void (*)(int, char**, char**);
__attribute__((section(".preinit_array"), used)) const Initialiser first = lock_down;

}  // namespace
