// The compiler's own names of functions that copy and compare memory stand for the C library's, which
// the runtime watches: g++ expands a small `__builtin_memcpy` to instructions that no hook sees.
#pragma once
#include <string.h>

#define __builtin_memcpy ::memcpy
#define __builtin_memmove ::memmove
#define __builtin_memset ::memset
#define __builtin_mempcpy ::mempcpy
#define __builtin_memcmp ::memcmp
#define __builtin_bcmp ::bcmp
#define __builtin_bcopy ::bcopy
#define __builtin_bzero ::bzero
#define __builtin_strcpy ::strcpy
#define __builtin_strncpy ::strncpy
#define __builtin_stpcpy ::stpcpy
#define __builtin_stpncpy ::stpncpy
#define __builtin_strcat ::strcat
#define __builtin_strncat ::strncat
#define __builtin_strcmp ::strcmp
#define __builtin_strncmp ::strncmp

// With a check of the room, as _FORTIFY_SOURCE asks for them. unsupported.py names them where they
// are spelled out. No function has these names, so that one made of parts doesn't compile.
#define __builtin___memcpy_chk __checked_memcpy
#define __builtin___memmove_chk __checked_memmove
#define __builtin___memset_chk __checked_memset
#define __builtin___mempcpy_chk __checked_mempcpy
#define __builtin___strcpy_chk __checked_strcpy
#define __builtin___strncpy_chk __checked_strncpy
#define __builtin___stpcpy_chk __checked_stpcpy
#define __builtin___stpncpy_chk __checked_stpncpy
#define __builtin___strcat_chk __checked_strcat
#define __builtin___strncat_chk __checked_strncat
