/* SPDX-License-Identifier: GPL-2.0-only */
struct inner { unsigned int first; unsigned int limit; };
struct outer { long head; struct inner *in; };
