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

void keep_lines(const Thread* self, const char* text, size_t length) {
    if (kept_length == printed_room) return;
    length = std::min<size_t>(length, 511);
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

// The arguments behind a format, and how many were taken.
struct Arguments {
    va_list list;
    int taken = 0;

    template <class Value>
    Value next() {
        ++taken;
        return va_arg(list, Value);
    }
};

// Output of one call, cut where the rest of CUDA's buffer ends.
struct Output {
    char text[output_bytes + 1];
    size_t length, room;

    void add(const char* more, size_t bytes) {
        bytes = std::min(bytes, room - length);
        std::memcpy(text + length, more, bytes);
        length += bytes;
    }
    template <class Value>
    void add_value(const char* conversion, Value value) {
        if (length == room) return;
        const int whole = std::snprintf(text + length, room - length + 1, conversion, value);
        if (whole > 0) length += std::min<size_t>(whole, room - length);
    }
} output;

// Adds a width or precision to a conversion: digits of the format, or an argument where it has `*`.
// The C library would write a field of gigabytes for minutes, so none is longer than the buffer.
const char* add_number(char* conversion, const char* format, Arguments& arguments) {
    char* end = const_cast<char*>(format);
    const bool is_precision = format[-1] == '.';
    const long number = *format == '*' ? arguments.next<int>() : std::strtol(format, &end, 10);
    const long limit = static_cast<long>(output.room);
    char* const to = conversion + std::strlen(conversion);
    if (is_precision && number < 0) {
        to[-1] = '\0';  // as if there were none
    } else if (*format == '*' || end != format) {
        std::sprintf(to, "%ld", std::clamp(number, -limit, limit));
    }
    return *format == '*' ? format + 1 : end;
}

// Adds the value of one conversion, which begins behind its `%`; returns what is behind it. There
// is no `%n`, as in CUDA: its stores would be seen by nobody.
const char* add_conversion(const char* format, Arguments& arguments) {
    const char* const begin = format - 1;
    char conversion[64] = "%";
    const size_t flags = std::strspn(format, "-+ #0");
    std::strncat(conversion, format, std::min<size_t>(flags, 8));
    format = add_number(conversion, format + flags, arguments);
    if (*format == '.') {
        std::strcat(conversion, ".");
        format = add_number(conversion, format + 1, arguments);
    }
    const size_t sizes = std::strspn(format, "hlLqjzt");
    const bool is_long = std::strcspn(format, "lLqjzt") < sizes;
    const bool is_long_double = *format == 'L';
    const char type[] = {format[sizes], '\0'};
    format += sizes + (*type != '\0');
    const bool is_integer = *type && std::strchr("diouxX", *type);
    const bool is_float = *type && std::strchr("eEfFgGaA", *type);
    if (is_integer) std::strncat(conversion, is_long ? "ll" : "hh", is_long ? 2 : sizes % 3);
    if (is_float && is_long_double) std::strcat(conversion, "L");
    std::strcat(conversion, type);
    if (*type == '%') {
        output.add("%", 1);
    } else if (is_integer && is_long) {
        output.add_value(conversion, arguments.next<long long>());
    } else if (is_integer || *type == 'c') {
        output.add_value(conversion, arguments.next<int>());
    } else if (is_float && is_long_double) {
        output.add_value(conversion, arguments.next<long double>());
    } else if (is_float) {
        output.add_value(conversion, arguments.next<double>());
    } else if (*type == 's') {
        output.add_value(conversion, arguments.next<const char*>());
    } else if (*type == 'p' || *type == 'n') {
        void* const value = arguments.next<void*>();
        if (*type == 'p') output.add_value(conversion, value);
    } else {
        output.add(begin, format - begin);
    }
    return format;
}

void format_output(const char* format, Arguments& arguments) {
    output.length = 0;
    output.room = output_bytes - printed;
    while (*format) {
        const size_t plain = std::strcspn(format, "%");
        output.add(format, plain);
        format += plain;
        if (*format) format = add_conversion(format + 1, arguments);
    }
    printed += output.length;
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
    Arguments arguments;
    va_start(arguments.list, format);
    int result;
    if (!current_thread) {
        result = print_of_host(format, arguments.list);
    } else {
        Thread* const self = std::exchange(current_thread, nullptr);  // the C library may allocate
        format_output(format, arguments);
        keep_lines(self, output.text, output.length);
        const bool fits = printed < output_bytes;  // what doesn't is lost
        if (fits) std::fwrite(output.text, 1, output.length, stdout);
        result = arguments.taken;
        current_thread = self;
    }
    va_end(arguments.list);
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
