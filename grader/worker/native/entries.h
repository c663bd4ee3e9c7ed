// The table of a submission's entries, which grader/emulator/build.py generates for each file.
//
// The generated source has, for every entry that is present, a function that unpacks the values and
// calls the student's function, and the two symbols below. For
//
//     extern "C" void transpose(const float* input, float* output, int rows, int columns);
//
// it is
//
//     static void call_transpose(const warpgrade_value* values) {
//         transpose(static_cast<const float*>(values[0].pointer), static_cast<float*>(...), ...
//                   values[2].integer, values[3].integer);
//     }
//     const warpgrade_entry warpgrade_entries[] = {{"transpose", "ppii", call_transpose}};
//     const unsigned warpgrade_entry_count = 1;

#ifndef WARPGRADE_ENTRIES_H
#define WARPGRADE_ENTRIES_H

// One argument of an entry; its letter in `arguments` selects the member.
union warpgrade_value {
    void* pointer;            // p
    int integer;              // i
    float float32;            // f
    bool boolean;             // b
    long long long_integer;   // l
    double float64;           // d
};

struct warpgrade_entry {
    const char* name;
    const char* arguments;  // one letter per argument
    void (*call)(const warpgrade_value* values);
};

extern "C" {
extern const warpgrade_entry warpgrade_entries[];
extern const unsigned warpgrade_entry_count;
}

#endif
