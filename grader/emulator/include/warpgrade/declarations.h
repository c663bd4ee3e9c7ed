// device_api.h and the qualifiers, in the order they need.
#ifndef WARPGRADE_DECLARATIONS_H
#define WARPGRADE_DECLARATIONS_H

#include "device_api.h"
#include "qualifiers.h"

#endif
