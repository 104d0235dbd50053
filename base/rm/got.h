/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_RM_GOT_H
#define GP_BASE_RM_GOT_H
/*
 * Redirects one imported function of one loaded library: patches the library's own GOT entries.
 * This reaches a driver that was opened by dlopen, whatever the symbol search order.
 */
#include "base/err.h"

/*
 * Makes the library behind @handle (from dlopen) call @replacement where it imports @symbol.
 * -ENOENT if it does not import it. Not thread-safe against calls in flight: call before the
 * library's first use. The patch lasts as long as the library is loaded.
 */
gp_must_check int gp_got_patch(void *handle, const char *symbol, void *replacement,
			       struct gp_err *err);

#endif
