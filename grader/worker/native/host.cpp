// The native host: has one entry, and answers the grader's requests about it.
//
//     exe [--filter=HEX] [--arguments=NAME:ROLE,...] [--gpu=NUMBERS:NAME] [--on-gpu]
//         SOCKET_FD ENTRY FD:LENGTH:WRITABLE...
//
// --filter     see lockdown.cpp; must come first
// --arguments  their names in the spec, for messages, and whether each is input, output or inout
// --gpu        the properties of the device that host code asks for: see HostGpu in gpu/kinds.py
// --on-gpu     the buffers are allocations on the GPU
//
// It has no expected values, no seeds, no thresholds and no verdict. The student's code shares this
// process, so its answers are untrusted; the grader judges by the buffers.

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "../../emulator/runtime/device_limits.h"
#include "arguments.h"
#include "backend.h"
#include "protocol.h"
#include "text.h"

// An H100's, unless the option --gpu has another's.
namespace warpgrade::device {

char name[256] = "NVIDIA H100 80GB HBM3";
unsigned capability = 90, multiprocessors = 132;
unsigned clock_khz = 1980000, memory_clock_khz = 2619000, bus_bits = 5120;
unsigned most_threads_per_multiprocessor = 2048, most_blocks_per_multiprocessor = 32;
size_t l2_bytes = size_t{50} << 20;
size_t shared_per_multiprocessor = 228 * 1024, shared_reserved_per_block = 1024;
size_t shared_per_block_optin = 227 * 1024;

}  // namespace warpgrade::device

namespace warpgrade::host {
namespace {

constexpr char arguments_option[] = "--arguments=", gpu_option[] = "--gpu=";
constexpr std::size_t max_document = std::size_t(16) << 20;

struct CommandLine {
    int socket = -1;
    std::string entry;
    std::vector<Description> descriptions;
    std::vector<Buffer> buffers;
};

struct Session {
    int socket;
    std::string entry_name;
    std::vector<Description> descriptions;
    std::vector<Buffer> buffers;
    const warpgrade_entry* entry = nullptr;  // once loaded
};

// --- the command line ---------------------------------------------------------------------------

[[noreturn]] void wrong_usage(const std::string& why) {
    std::fprintf(stderr, "%s\nusage: [--filter=HEX] [--arguments=NAME:ROLE,...] "
                         "[--gpu=NUMBERS:NAME] [--on-gpu] SOCKET_FD ENTRY FD:LENGTH:WRITABLE...\n", why.c_str());
    std::_Exit(2);
}

Buffer read_buffer(const char* text) {
    int descriptor = 0, writable = 0, used = 0;
    unsigned long long length = 0;
    if (std::sscanf(text, "%d:%llu:%d%n", &descriptor, &length, &writable, &used) != 3 ||
        text[used] != '\0' || descriptor < 0 || length == 0 || (writable != 0 && writable != 1)) {
        wrong_usage(std::string(text) + ": expected FD:LENGTH:WRITABLE");
    }
    return {descriptor, static_cast<std::size_t>(length), writable == 1, false};
}

Description read_description(const std::string& text) {
    const std::size_t colon = text.find(':');
    const std::string role = colon == std::string::npos ? "" : text.substr(colon + 1);
    if (role != "input" && role != "output" && role != "inout") {
        wrong_usage("--arguments: '" + text + "': expected NAME:input, NAME:output or NAME:inout");
    }
    return {text.substr(0, colon), role != "output", role != "input"};
}

std::vector<Description> read_descriptions(const std::string& text) {
    std::vector<Description> descriptions;
    std::size_t start = 0;
    while (true) {
        const std::size_t comma = text.find(',', start);
        descriptions.push_back(read_description(text.substr(start, comma - start)));
        if (comma == std::string::npos) return descriptions;
        start = comma + 1;
    }
}

// Takes the properties in the order of HostGpu's fields. The memory is the emulator's.
void see_gpu(const std::string& text) {
    int used = 0;
    unsigned long long memory = 0;
    const int count = std::sscanf(
        text.c_str(), "%u:%u:%llu:%zu:%u:%u:%u:%u:%u:%zu:%zu:%zu:%n", &device::capability,
        &device::multiprocessors, &memory, &device::l2_bytes, &device::clock_khz,
        &device::memory_clock_khz, &device::bus_bits, &device::most_threads_per_multiprocessor,
        &device::most_blocks_per_multiprocessor, &device::shared_per_multiprocessor,
        &device::shared_reserved_per_block, &device::shared_per_block_optin, &used);
    const std::string name = text.substr(static_cast<std::size_t>(used));
    if (count != 12 || !used || name.size() >= sizeof device::name) {
        wrong_usage("--gpu: '" + text + "': expected 12 numbers and a name");
    }
    std::strcpy(device::name, name.c_str());
}

int read_descriptor(const char* text) {
    char* end = nullptr;
    const long number = std::strtol(text, &end, 10);
    if (end == text || *end || number < 0) wrong_usage(std::string(text) + ": not a descriptor");
    return static_cast<int>(number);
}

CommandLine read_command_line(int count, char** arguments) {
    CommandLine line;
    bool on_gpu = false;
    int next = 1;
    for (; next < count && std::strncmp(arguments[next], "--", 2) == 0; ++next) {
        const std::string text = arguments[next];
        if (text.rfind(arguments_option, 0) == 0) {
            line.descriptions = read_descriptions(text.substr(sizeof arguments_option - 1));
        } else if (text.rfind(gpu_option, 0) == 0) {
            see_gpu(text.substr(sizeof gpu_option - 1));
        } else if (text == "--on-gpu") {
            on_gpu = true;
        } else if (text.rfind("--filter=", 0) != 0 || next != 1) {
            wrong_usage(text + ": no such option here");
        }
    }
    if (count - next < 2) wrong_usage("SOCKET_FD and ENTRY expected");
    line.socket = read_descriptor(arguments[next]);
    line.entry = arguments[next + 1];
    for (int index = next + 2; index < count; ++index) {
        line.buffers.push_back(read_buffer(arguments[index]));
        line.buffers.back().on_gpu = on_gpu;
    }
    return line;
}

// --- requests -----------------------------------------------------------------------------------

// Finds an entry and checks the number of its arguments; the compiler has checked their types.
Answer load_entry(Session& session, const Request& request, const std::string& name) {
    std::string present;
    session.entry = nullptr;
    for (unsigned index = 0; index < warpgrade_entry_count; ++index) {
        const warpgrade_entry& entry = warpgrade_entries[index];
        if (name == entry.name) session.entry = &entry;
        present += (index ? ", " : "") + quoted(entry.name);
    }
    if (!session.entry) {
        return {Code::entry_missing,
                "{\"message\": \"missing\", \"functions\": [" + present + "]}"};
    }
    if (request.argument_count != std::strlen(session.entry->arguments)) {
        const std::string letters = quoted(session.entry->arguments);
        session.entry = nullptr;
        return {Code::entry_missing,
                "{\"message\": \"signature\", \"signature\": " + letters + "}"};
    }
    return load();
}

// A whole document of the grader's. Throws BadRequest.
std::string read_document(int descriptor) {
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status) || status.st_size < 0 ||
        static_cast<std::size_t>(status.st_size) > max_document) {
        throw BadRequest("no document, or one that is too large");
    }
    std::string text(static_cast<std::size_t>(status.st_size), '\0');
    std::size_t filled = 0;
    while (filled < text.size()) {
        const ssize_t length = pread(descriptor, &text[filled], text.size() - filled,
                                     static_cast<off_t>(filled));
        if (length <= 0) throw BadRequest("a document that can't be read");
        filled += static_cast<std::size_t>(length);
    }
    return text;
}

// Numbers of sets, after their count. Throws BadRequest.
std::vector<unsigned> read_order(const std::string& document) {
    std::vector<unsigned> order(document.size() / sizeof(unsigned));
    std::memcpy(order.data(), document.data(), order.size() * sizeof(unsigned));
    if (order.empty() || order.front() != order.size() - 1) throw BadRequest("no order of sets");
    order.erase(order.begin());
    return order;
}

// The device's time, as {"nanoseconds": ...}.
Answer replayed(bool with_calls) {
    std::uint64_t nanoseconds = 0;
    Answer done = replay(with_calls, nanoseconds);
    if (done.code == Code::ok) {
        done.text = "{\"nanoseconds\": " + std::to_string(nanoseconds) + "}";
    }
    return done;
}

Answer serve_request(Session& session, const Request& request, int document) {
    const auto operation = static_cast<Operation>(request.operation);
    if (operation == Operation::load) {
        const bool is_named = document >= 0;
        return load_entry(session, request,
                          is_named ? read_document(document) : session.entry_name);
    }
    if (operation == Operation::execute) {
        Call call = read_tensors(request, session.buffers, session.descriptions);
        return execute(call, read_document(document));
    }
    if (operation == Operation::adopt) return adopt(read_document(document));
    if (operation == Operation::arrange) return arrange(read_order(read_document(document)));
    if (operation == Operation::replay) return replayed(request.repeat != 0);
    if (operation == Operation::place) {
        return place_set(read_tensors(request, session.buffers, session.descriptions),
                         request.repeat);
    }
    if (operation == Operation::more) return more_of_text(request.repeat);
    if (!session.entry) throw BadRequest("nothing is loaded");
    switch (operation) {
        case Operation::plan: {
            Call call = read_call(request, *session.entry, session.buffers,
                                  session.descriptions);
            return make_plan(call);
        }
        default: throw BadRequest("operation " + std::to_string(request.operation));
    }
}

// Also catches exceptions of the entry, which C++ allows.
Answer answer_request(Session& session, const Request& request, int document) {
    try {
        return serve_request(session, request, document);
    } catch (const BadRequest& error) {
        return answer(Code::bad_request, error.what());
    } catch (const std::bad_alloc&) {
        return answer(Code::out_of_memory, "bad_alloc", "no memory left on the host");
    } catch (const std::exception& error) {
        return answer(Code::raised, "std::exception", error.what());
    } catch (...) {
        return answer(Code::raised, "unknown", "an exception that is no std::exception");
    }
}

// --- the socket ---------------------------------------------------------------------------------

// A descriptor from a message, closed at the end.
struct Descriptor {
    int number = -1;
    ~Descriptor() {
        if (number >= 0) close(number);
    }
};

// One message, cut to `room` bytes; its full length, or 0 where the grader has gone. At most one
// descriptor is received: there is no room for more, so the kernel drops them.
std::size_t receive(int socket, void* data, std::size_t room, Descriptor& document) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    iovec part{data, room};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    while (true) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        const ssize_t length = recvmsg(socket, &message, MSG_TRUNC | MSG_CMSG_CLOEXEC);
        if (length < 0 && errno == EINTR) continue;
        if (length < 0) return 0;
        const cmsghdr* head = CMSG_FIRSTHDR(&message);
        if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
            std::memcpy(&document.number, CMSG_DATA(head), sizeof document.number);
        }
        return static_cast<std::size_t>(length);
    }
}

bool send_reply(int socket, std::uint64_t sequence, const Answer& answer) {
    const std::size_t length = std::min(answer.text.size(), max_text);
    const ReplyHeader header{sequence, static_cast<std::uint32_t>(answer.code),
                             static_cast<std::uint32_t>(length)};
    std::string message(reinterpret_cast<const char*>(&header), sizeof header);
    message.append(answer.text, 0, length);
    while (true) {
        const ssize_t sent = send(socket, message.data(), message.size(), MSG_NOSIGNAL);
        if (sent >= 0) return true;
        if (errno != EINTR) return false;
    }
}

bool is_request(const Request& request, std::size_t length) {
    return length == sizeof request && request.magic == magic && request.version == version &&
           request.argument_count <= max_arguments;
}

// Answer requests until the grader closes the socket or the device is lost.
void serve(Session& session) {
    bool serving = send_reply(session.socket, 0, {});  // ready
    while (serving) {
        Request request{};
        Descriptor document;
        const std::size_t length =
            receive(session.socket, &request, sizeof request, document);
        if (length == 0) return;
        if (!is_request(request, length)) {
            serving = send_reply(session.socket, 0,
                                 answer(Code::bad_request, "not a request of this version"));
            continue;
        }
        const Answer result = answer_request(session, request, document.number);
        std::fflush(nullptr);  // the student's output belongs to this request
        serving = send_reply(session.socket, request.sequence, result) && !result.lost;
    }
}

}  // namespace

// Defaults of the optional functions.
__attribute__((weak)) Answer place_set(const Call&, unsigned) {
    throw BadRequest("there is no clock here");
}
__attribute__((weak)) Answer make_plan(Call&) { throw BadRequest("this program makes no plans"); }
__attribute__((weak)) Answer more_of_text(std::size_t) { throw BadRequest("there is no text"); }
__attribute__((weak)) Answer execute(Call&, const std::string&) {
    throw BadRequest("this program executes no plans");
}
__attribute__((weak)) Answer adopt(const std::string&) { throw BadRequest("there is no clock here"); }
__attribute__((weak)) Answer arrange(const std::vector<unsigned>&) {
    throw BadRequest("there is no clock here");
}
__attribute__((weak)) Answer replay(bool, std::uint64_t&) {
    throw BadRequest("there is no clock here");
}

}  // namespace warpgrade::host

int main(int count, char** arguments) {
    using namespace warpgrade::host;
    std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a crash must not take the last line with it
    const CommandLine line = read_command_line(count, arguments);
    Session session{line.socket, line.entry, line.descriptions, line.buffers};
    try {
        map_buffers(line.buffers);
    } catch (const std::exception& error) {
        wrong_usage(error.what());
    }
    serve(session);
    std::fflush(nullptr);
    std::_Exit(0);  // without the student's destructors
}
