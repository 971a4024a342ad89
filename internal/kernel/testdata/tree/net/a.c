// SPDX-License-Identifier: GPL-2.0-only
#include "shared.h"
unsigned int a_limit(struct outer *o) { return o->in->limit; }
