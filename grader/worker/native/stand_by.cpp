#include "stand_by.h"

#include <sys/mman.h>
#include <time.h>

#include <cerrno>
#include <system_error>

namespace warpgrade::host {
namespace {

constexpr long nap_nanoseconds = 500'000;  // while no request is announced: others need the core

std::uint64_t load(const std::uint64_t* words, Word word) {
    return __atomic_load_n(words + static_cast<std::size_t>(word), __ATOMIC_ACQUIRE);
}

void store(std::uint64_t* words, Word word, std::uint64_t value) {
    __atomic_store_n(words + static_cast<std::size_t>(word), value, __ATOMIC_RELEASE);
}

void nap() {
    const timespec length{0, nap_nanoseconds};
    nanosleep(&length, nullptr);
}

}  // namespace

Page::Page(int descriptor) {
    void* start = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (start == MAP_FAILED) {
        throw std::system_error(errno, std::generic_category(), "mmap of the page");
    }
    words_ = static_cast<std::uint64_t*>(start);
}

Answer Page::serve() {
    std::uint64_t done = load(words_, Word::answer);
    while (true) {
        const std::uint64_t number = load(words_, Word::request);
        if (number == done) {
            if (load(words_, Word::announced) == done) nap();
            continue;
        }
        const std::uint64_t asked = load(words_, Word::work);
        if (asked == stop) return {};
        std::uint64_t nanoseconds = 0;
        Answer called = call_sets(static_cast<unsigned>(asked >> 32),
                                  static_cast<unsigned>(asked), nanoseconds);
        if (called.code != Code::ok) return called;
        store(words_, Word::inside, nanoseconds);
        store(words_, Word::answer, number);
        done = number;
    }
}

}  // namespace warpgrade::host
