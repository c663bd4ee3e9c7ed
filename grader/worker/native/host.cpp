// The native host: loads nothing, knows one entry, answers requests of the grader about it.
//
//     exe [--filter=HEX] [--arguments=NAME:ROLE,...] [--page=FD] [--on-gpu]
//         SOCKET_FD ENTRY FD:LENGTH:WRITABLE...
//
// --filter     see lockdown.cpp; must come first
// --arguments  their names in the spec, for messages; and whether each is input, output or inout
// --page       shared with the clock: see stand_by.h
// --on-gpu     the buffers are allocations on the GPU
//
// It holds no expected values, no seeds, no thresholds and no verdict. The student's code shares
// this process, so nothing it answers is believed without need; the grader judges by the buffers.

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "arguments.h"
#include "backend.h"
#include "protocol.h"
#include "stand_by.h"
#include "text.h"

namespace warpgrade::host {
namespace {

constexpr char arguments_option[] = "--arguments=";
constexpr char page_option[] = "--page=";

struct CommandLine {
    int socket = -1;
    std::string entry;
    std::vector<Description> descriptions;
    std::vector<Buffer> buffers;
    int page = -1;
};

struct Session {
    int socket;
    std::string entry_name;
    std::vector<Description> descriptions;
    std::vector<Buffer> buffers;
    std::optional<Page> page;
    const warpgrade_entry* entry = nullptr;  // once loaded
};

// --- the command line ---------------------------------------------------------------------------

[[noreturn]] void wrong_usage(const std::string& why) {
    std::fprintf(stderr, "%s\nusage: [--filter=HEX] [--arguments=NAME:ROLE,...] [--page=FD] "
                         "[--on-gpu] SOCKET_FD ENTRY FD:LENGTH:WRITABLE...\n", why.c_str());
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
        } else if (text.rfind(page_option, 0) == 0) {
            line.page = read_descriptor(arguments[next] + sizeof page_option - 1);
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

// --- what is asked ------------------------------------------------------------------------------

// Find the entry and check the number of its arguments; the compiler has checked their types.
Answer load_entry(Session& session, const Request& request) {
    std::string present;
    for (unsigned index = 0; index < warpgrade_entry_count; ++index) {
        const warpgrade_entry& entry = warpgrade_entries[index];
        if (session.entry_name == entry.name) session.entry = &entry;
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

Answer serve_request(Session& session, const Request& request) {
    const auto operation = static_cast<Operation>(request.operation);
    if (operation == Operation::load) return load_entry(session, request);
    if (!session.entry) throw BadRequest("nothing is loaded");
    switch (operation) {
        case Operation::run:
        case Operation::measure: {
            Call call = read_call(request, *session.entry, session.buffers, session.descriptions);
            return run(call, operation == Operation::measure);
        }
        case Operation::place:
            return place_set(
                read_call(request, *session.entry, session.buffers, session.descriptions),
                request.repeat);
        case Operation::stand_by:
            if (!session.page) throw BadRequest("there is no page to stand by for");
            return session.page->serve();
        case Operation::profile:
            throw BadRequest("kernels of a CUDA C++ program are not listed");
        default: throw BadRequest("operation " + std::to_string(request.operation));
    }
}

// What the entry throws ends up here too: C++ lets it.
Answer answer_request(Session& session, const Request& request) {
    try {
        return serve_request(session, request);
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

// One message, cut to `room` bytes; its full length, or 0 where the grader has gone. Descriptors
// that come with it are dropped by the kernel, since there is no room for them.
std::size_t receive(int socket, void* data, std::size_t room) {
    while (true) {
        const ssize_t length = recv(socket, data, room, MSG_TRUNC);
        if (length >= 0) return static_cast<std::size_t>(length);
        if (errno != EINTR) return 0;
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
        const std::size_t length = receive(session.socket, &request, sizeof request);
        if (length == 0) return;
        if (!is_request(request, length)) {
            serving = send_reply(session.socket, 0,
                                 answer(Code::bad_request, "not a request of this version"));
            continue;
        }
        const Answer result = answer_request(session, request);
        std::fflush(nullptr);  // what the student printed belongs to this request
        serving = send_reply(session.socket, request.sequence, result) && !result.lost;
    }
}

}  // namespace
}  // namespace warpgrade::host

int main(int count, char** arguments) {
    using namespace warpgrade::host;
    std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a crash must not take the last line with it
    const CommandLine line = read_command_line(count, arguments);
    Session session{line.socket, line.entry, line.descriptions, line.buffers, {}};
    try {
        if (line.page >= 0) session.page.emplace(line.page);
        map_buffers(line.buffers);
    } catch (const std::exception& error) {
        wrong_usage(error.what());
    }
    serve(session);
    std::fflush(nullptr);
    std::_Exit(0);  // the student's destructors have nothing to say
}
