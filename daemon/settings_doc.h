/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_DAEMON_SETTINGS_DOC_H
#define GP_DAEMON_SETTINGS_DOC_H
/* Documents made of the table of settings, when gpupres is built. */
#include <stdio.h>

/* A gpupresd.conf with every setting as a comment: its default, or a sample. */
void gp_settings_print_sample(FILE *out);
/* The settings section by section, as a part of a manual page in man(7) macros. */
void gp_settings_print_roff(FILE *out);

#endif
