// Checks an entry's signature. glue.py appends to a submission, for each entry,
//
//     namespace warpgrade_absent { ::warpgrade::Absent silu(::warpgrade::Absent, ...); }
//     using namespace warpgrade_absent;
//     struct warpgrade_named_silu { ... };
//     extern "C" { extern const char warpgrade_signature_silu[...of<...>(...verdict(0, silu))]; ... }
//
// So the name always has a meaning, and the size of the array is the verdict.
//
// If the name is overloaded, the language can't find the extern "C" function, since its type is
// like any other's. Its symbol differs. So each function that could be the entry leaves an
// overload_mark in the object, and the mark's own symbol contains the function's (objects.py).
#ifndef WARPGRADE_SIGNATURE_H
#define WARPGRADE_SIGNATURE_H

#include <cstddef>
#include <type_traits>

namespace warpgrade {

struct Absent;

// The sizes, which glue.py has too.
constexpr size_t signature_right = 1;
constexpr size_t signature_other = 2;       // no function there, or one that isn't void
constexpr size_t signature_overloaded = 3;  // several functions: the marks decide
constexpr size_t signature_count = 64;      // + the number of arguments it takes
constexpr size_t signature_argument = 128;  // + the first argument that is wrong, from 0

template <class T>
struct pointer_to {};

template <class Expected, class Given>
struct fits : std::is_same<Expected, Given> {};
template <class T>
struct fits<pointer_to<T>, T*> : std::true_type {};
template <class T>
struct fits<pointer_to<T>, const T*> : std::true_type {};
// The 64-bit integers have two names here.
template <>
struct fits<pointer_to<long long>, long*> : std::true_type {};
template <>
struct fits<pointer_to<long long>, const long*> : std::true_type {};

template <class... T>
struct types {};

template <class... E, class... G>
constexpr size_t first_misfit(types<E...>, types<G...>) {
    const bool fit[] = {fits<E, G>::value..., true};
    for (size_t i = 0; i < sizeof...(E); i++)
        if (!fit[i]) return signature_argument + i;
    return signature_right;
}

template <class... E>
struct signature {
    // Called with 0: the student's function is the better match, if there is one. Only `void`
    // distinguishes them: g++ also accepts any return type and parameters for Absent(Absent, ...).
    template <class... G>
    static constexpr size_t verdict(int, void (*)(G...)) {
        if constexpr (sizeof...(E) != sizeof...(G))
            return signature_count + sizeof...(G);
        else
            return first_misfit(types<E...>(), types<G...>());
    }
    static constexpr size_t verdict(long, Absent (*)(Absent, ...)) { return signature_other; }

    // For an existing function.
    template <class R, class... G>
    static constexpr size_t verdict(R (*function)(G...)) {
        if constexpr (std::is_void_v<R>)
            return verdict(0, function);
        else
            return signature_other;
    }
};

// A function that could be the entry, by its type.
template <auto function>
[[gnu::used]] inline const char overload_mark = 0;

// The types of functions that could be the entry, one by one; `Done` are the parameters so far.
template <class Named, class... Done>
constexpr size_t mark_overloads(types<Done...>, types<>) {
    return Named::template mark<void (*)(Done...)>(0);
}
template <class Named, class... Done, class E, class... Rest>
constexpr size_t mark_overloads(types<Done...>, types<E, Rest...>) {
    return mark_overloads<Named>(types<Done..., E>(), types<Rest...>());
}
template <class Named, class... Done, class T, class... Rest>
constexpr size_t mark_overloads(types<Done...>, types<pointer_to<T>, Rest...>) {
    using Left = types<Rest...>;
    size_t found = mark_overloads<Named>(types<Done..., T*>(), Left()) +
                   mark_overloads<Named>(types<Done..., const T*>(), Left());
    if constexpr (std::is_same_v<T, long long>) {
        found += mark_overloads<Named>(types<Done..., long*>(), Left()) +
                 mark_overloads<Named>(types<Done..., const long*>(), Left());
    }
    return found;
}

// Callable with the name of one function of any type, but not with an overloaded name.
struct OneFunction {
    template <class R, class... G>
    static constexpr bool takes(R (*)(G...));
    template <class R, class... G>
    static constexpr bool takes(R (*)(G..., ...));
    static constexpr bool takes(Absent (*)(Absent, ...));
};

// The verdict on a name's meaning: `one` where it means one function (see signature).
template <class Named, class... E>
constexpr size_t verdict_of(size_t one) {
    if constexpr (Named::template is_one<OneFunction>(0)) {
        return one;
    } else {  // compiled only where it is needed: so many types take longer than a small kernel
        mark_overloads<Named>(types<>(), types<E...>());
        return signature_overloaded;
    }
}

}  // namespace warpgrade

#endif
