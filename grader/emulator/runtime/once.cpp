#include "once.h"

__thread void* warpgrade__ZSt15__once_callable;
__thread void (*warpgrade__ZSt11__once_call)();

void warpgrade___once_proxy() { warpgrade__ZSt11__once_call(); }
