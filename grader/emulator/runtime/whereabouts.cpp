// A program that doesn't end tells where it is. Each SIGUSR1 prints the basic blocks that it passed
// since the first one: a loop passes its own again and again.
#include "whereabouts.h"

#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "access.h"
#include "hooks.h"

namespace warpgrade {

bool noting;

namespace {

constexpr std::size_t most_blocks = 256;
std::uint32_t blocks[most_blocks];
volatile std::size_t noted;

// In the handler, where nothing may allocate. The line is `[grader] at 123,456`.
void print_blocks() {
    static char line[32 + 11 * most_blocks];
    char* end = line;
    for (const char* word = "\n[grader] at "; *word; ++word) *end++ = *word;
    for (std::size_t i = 0; i < noted; ++i) {
        char digits[10];
        int count = 0;
        for (std::uint32_t left = blocks[i]; left || !count; left /= 10) {
            digits[count++] = static_cast<char>('0' + left % 10);
        }
        if (i) *end++ = ',';
        while (count) *end++ = digits[--count];
    }
    *end++ = '\n';
    [[maybe_unused]] ssize_t written = write(STDERR_FILENO, line, static_cast<std::size_t>(end - line));
}

void on_question(int) {
    if (noting) print_blocks();
    noting = attention = true;
}

}  // namespace

void note_block(Address pc) {
    const auto relative = static_cast<std::uint32_t>(pc - image_base);
    for (std::size_t i = 0; i < noted; ++i) {
        if (blocks[i] == relative) return;
    }
    if (noted < most_blocks) {
        blocks[noted] = relative;
        noted = noted + 1;
    }
}

void answer_where() {
    struct sigaction action {};
    action.sa_handler = on_question;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
}

}  // namespace warpgrade
