// Output of device code (printf, a failed assert, __trap), and its clocks.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "../include/warpgrade/device_api.h"
#include "block_order.h"
#include "device_work.h"
#include "errors.h"
#include "observe.h"

namespace warpgrade {

namespace {

// The size of CUDA's buffer; more output is lost, as in CUDA.
constexpr size_t output_bytes = 1024 * 1024;
size_t printed;

// The first of it is kept for the report; the thread stands before each of its lines.
char kept[printed_room + 1];
size_t kept_length;
const Thread* in_line;  // the thread whose line hasn't ended
uint32_t block_in_line;

void keep(const char* text, size_t length) {
    length = std::min(length, printed_room - kept_length);
    std::memcpy(kept + kept_length, text, length);
    kept_length += length;
}

// How many bytes at `text` break a line somewhere: in a terminal, a browser or Python.
size_t line_break(const char* text, size_t room) {
    static const char* const breaks[] = {"\r\n", "\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e",
                                         "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"};
    for (const char* each : breaks) {
        const size_t length = std::strlen(each);
        if (length <= room && !std::memcmp(text, each, length)) return length;
    }
    return 0;
}

void keep_lines(const Thread* self, const char* format, va_list arguments) {
    if (kept_length == printed_room) return;
    char text[512];
    const int whole = std::vsnprintf(text, sizeof text, format, arguments);
    const size_t length = whole < 0 ? 0 : std::min<size_t>(whole, sizeof text - 1);
    if (in_line && (in_line != self || block_in_line != current_block.linear)) {
        keep("\n", 1);
        in_line = nullptr;
    }
    for (size_t from = 0; from < length;) {
        if (!in_line) {
            const Index3 &thread = self->index, &block = current_block.index;
            char who[128];
            keep(who, std::snprintf(who, sizeof who, "thread (%u,%u,%u) of block (%u,%u,%u): ",
                                    thread.x, thread.y, thread.z, block.x, block.y, block.z));
        }
        size_t end = from, broken = 0;
        while (end < length && !(broken = line_break(text + end, length - end))) ++end;
        keep(text + from, end - from);
        if (broken) keep("\n", 1);
        in_line = broken ? nullptr : self;
        block_in_line = current_block.linear;
        from = end + broken;
    }
}

// How many arguments a format takes: a `*` is one, `%%` none.
int arguments_of(const char* format) {
    int count = 0;
    while ((format = std::strchr(format, '%'))) {
        for (++format; *format && std::strchr("-+ #.*0123456789hlLqjzt", *format); ++format) {
            count += *format == '*';
        }
        count += *format && *format != '%';
        format += *format != '\0';
    }
    return count;
}

uint64_t nanoseconds;

// Host code's own output, which is also kept with the plan.
int print_of_host(const char* format, va_list arguments) {
    char text[1024];
    va_list again;
    va_copy(again, arguments);
    const int length = std::vsnprintf(text, sizeof text, format, again);
    va_end(again);
    if (length > 0) work::printed(text, std::min<size_t>(length, sizeof text - 1));
    return std::vprintf(format, arguments);
}

}  // namespace

void forget_output() {
    printed = kept_length = 0;
    in_line = nullptr;
    nanoseconds = 0;
}

const char* kept_output() {
    kept[kept_length] = '\0';
    return kept;
}

uint64_t virtual_nanoseconds() { return nanoseconds; }
void pass_virtual_time(uint64_t more) { nanoseconds += more; }

}  // namespace warpgrade

using namespace warpgrade;

extern "C" {

int warpgrade_printf(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int result = 0;
    if (!current_thread) {
        result = print_of_host(format, arguments);
    } else if (result = arguments_of(format); printed < output_bytes) {
        Thread* const self = std::exchange(current_thread, nullptr);  // the C library may allocate
        va_list again;
        va_copy(again, arguments);
        keep_lines(self, format, again);
        va_end(again);
        va_copy(again, arguments);
        const int length = std::vsnprintf(nullptr, 0, format, again);
        va_end(again);
        if (length > 0) printed += static_cast<size_t>(length);
        if (printed <= output_bytes) std::vprintf(format, arguments);  // what doesn't fit is lost
        current_thread = self;
    }
    va_end(arguments);
    return result;
}

void warpgrade_assert_failed(const char* condition, const char* file, int line,
                             const char* function) {
    const Thread* self = current_thread;
    if (!self) {
        std::fprintf(stderr, "%s:%d: %s: Assertion `%s' failed.\n", file, line, function,
                     condition);
        std::fflush(nullptr);
        std::abort();
    }
    report_finding(FindingKind::device_assert, WARPGRADE_CALLER, self, 0, nullptr, "assert(%s)",
                   condition);
    abandon_launch(error_assert);
}

void __trap() {
    const Thread* self = current_thread;
    if (!self) std::abort();
    report_finding(FindingKind::device_assert, WARPGRADE_CALLER, self, 0, nullptr, "__trap()");
    abandon_launch(error_launch_failure);
}

// Each reading is later than the last, so that a kernel that times itself gets a positive time.
long long clock64() {
    count_spin();  // waiting for a time is polling, too
    note_clock(WARPGRADE_CALLER);
    pass_virtual_time(blocks_are_reordered() ? time_in_other_orders : 1);
    return static_cast<long long>(virtual_nanoseconds());
}

void __nanosleep(unsigned duration) {
    pass_virtual_time(duration);
    count_spin();
}

}  // extern "C"
