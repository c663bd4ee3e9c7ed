// assert for host and device code. Without a guard, as the C library's: NDEBUG counts anew.
#undef assert
#ifdef NDEBUG
#define assert(condition) (static_cast<void>(0))
#else
#include "warpgrade/declarations.h"
#define assert(condition)                      \
    (static_cast<bool>(condition)              \
         ? static_cast<void>(0)                \
         : warpgrade_assert_failed(#condition, __FILE__, __LINE__, __func__))
#endif
