/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run by the build: "settings_doc sample" prints a sample gpupresd.conf; "settings_doc page"
 * copies a manual page from stdin and puts the settings where it has the line ".\" SETTINGS".
 */
#include "daemon/settings_doc.h"

#include <string.h>

static void doc_page(void)
{
	char line[1024];

	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, ".\\\" SETTINGS\n"))
			gp_settings_print_roff(stdout);
		else
			fputs(line, stdout);
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "sample")) {
		gp_settings_print_sample(stdout);
	} else if (argc == 2 && !strcmp(argv[1], "page")) {
		doc_page();
	} else {
		fputs("usage: settings_doc sample | settings_doc page <PAGE.in\n", stderr);
		return 2;
	}
	return fflush(stdout) == 0 && !ferror(stdout) && !ferror(stdin) ? 0 : 1;
}
