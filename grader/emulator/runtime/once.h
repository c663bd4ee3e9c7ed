// What std::call_once needs of the C++ library.
//
// A submission's thread-local variables are those of its own program, so that it can't use the
// library's. Its object's names of these get `warpgrade_` before them (assembly.py).
#pragma once

extern "C" {

extern __thread void* warpgrade__ZSt15__once_callable;
extern __thread void (*warpgrade__ZSt11__once_call)();
void warpgrade___once_proxy();
}
