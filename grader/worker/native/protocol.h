// The structs of grader and worker, as in ../protocol.py, which explains them.
//
// A request is one SOCK_SEQPACKET message of exactly sizeof(Request) bytes, a reply one of
// sizeof(ReplyHeader) bytes and at most max_text bytes of text. Everything is little-endian, like
// every machine that CUDA runs on.

#ifndef WARPGRADE_PROTOCOL_H
#define WARPGRADE_PROTOCOL_H

#include <cstddef>
#include <cstdint>

namespace warpgrade::host {

constexpr std::uint32_t magic = 0x50524757;  // "WGRP" in memory
constexpr std::uint16_t version = 1;
constexpr std::size_t max_arguments = 16;
constexpr std::size_t max_rank = 8;
constexpr std::size_t max_text = 64 * 1024;

enum class Operation : std::uint16_t {
    load = 1,
    build = 8,
    place = 9,
    plan = 12,
    more = 13,
    execute = 14,
    translate = 15,
    assemble = 16,
    lay_out = 17,
    adopt = 18,
    arrange = 19,
    replay = 20,
    show_stages = 21,
    disassemble = 22,
};

enum class Kind : std::uint8_t { tensor = 1, float64 = 2, int64 = 3, boolean = 4 };

enum class Space : std::uint8_t { device = 1, host = 2 };

enum class DType : std::uint8_t {
    float64 = 1,
    float32 = 2,
    float16 = 3,
    bfloat16 = 4,
    int64 = 5,
    int32 = 6,
    int16 = 7,
    int8 = 8,
    uint8 = 9,
    boolean = 10,  // `bool` in Python
    uint16 = 11,
    uint32 = 12,
    uint64 = 13,
    float8_e4m3fn = 14,
    float8_e5m2 = 15,
};

enum class Code : std::uint32_t {
    ok = 0,
    bad_request = 1,
    import_failed = 2,
    entry_missing = 3,
    raised = 4,
    compile_failed = 6,
    out_of_memory = 7,
    not_modelled = 8,
    device_failed = 9,
    findings = 10,
};

struct Argument {
    std::uint8_t kind;
    std::uint8_t dtype;
    std::uint8_t space;
    std::uint8_t rank;
    std::int32_t buffer;
    std::uint64_t offset;             // bytes from the start of the buffer to the first element
    std::uint64_t allocation_offset;  // bytes
    std::uint64_t allocation_length;  // bytes
    std::uint64_t scalar_bits;
    std::int64_t shape[max_rank];
    std::int64_t strides[max_rank];  // elements
};

struct Request {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint16_t operation;
    std::uint64_t sequence;
    std::uint32_t argument_count;
    std::uint32_t repeat;
    Argument arguments[max_arguments];
};

struct ReplyHeader {
    std::uint64_t sequence;
    std::uint32_t code;
    std::uint32_t text_length;
};

static_assert(sizeof(Argument) == 168, "an argument of protocol.py has 168 bytes");
static_assert(offsetof(Request, arguments) == 24, "the head of a request has 24 bytes");
static_assert(sizeof(Request) == 24 + max_arguments * sizeof(Argument), "no padding in a request");
static_assert(sizeof(ReplyHeader) == 16, "the head of a reply has 16 bytes");

}  // namespace warpgrade::host

#endif
