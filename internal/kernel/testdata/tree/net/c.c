// SPDX-License-Identifier: GPL-2.0-only
int c_alone(void) { return 3; }
