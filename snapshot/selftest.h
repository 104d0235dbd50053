/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_SELFTEST_H
#define GP_SNAPSHOT_SELFTEST_H
/* `gpupres-mover --self-test`: what can only be known on the device at hand. */
#include "snapshot/driver.h"

/*
 * Opens the device, compares the hash kernel with its CPU twin over random, zero and patterned
 * chunks, measures it, and tries whether channels can be switched. Prints one line for each to
 * stdout. Uses 1 GiB of device memory, 32 MiB on the software device. -EBADMSG when the hashes
 * differ.
 */
gp_must_check int gp_selftest_run(struct gp_driver *driver, const struct gp_driver_options *options,
				  struct gp_err *err);

#endif
