/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_TESTS_UNIT_PTX_FIXTURE_H
#define GP_TESTS_UNIT_PTX_FIXTURE_H
/* Loads PTX of testdata/ptx and runs its kernels block by block on this thread. */
#include "shim/soft/exec.h"
#include "tests/unit/check.h"

#include <string.h>

#ifndef GP_TESTDATA_DIR
#define GP_TESTDATA_DIR "testdata"
#endif

struct fixture {
	struct gp_ptx_module *module;
	struct gp_exec_scratch *scratch;
	char *globals[64];
	struct gp_err err;
	volatile uint32_t stop;
	int (*park)(void *arg);
	void *park_arg;
	const char *name;
};

static inline char *fixture_read(const char *name, size_t *ret_len)
{
	char path[512];
	char *text;
	long len;
	FILE *f;

	snprintf(path, sizeof(path), "%s/ptx/%s", GP_TESTDATA_DIR, name);
	f = fopen(path, "rb");
	if (!f) {
		perror(path);
		exit(1);
	}
	CHECK_EQ(fseek(f, 0, SEEK_END), 0);
	len = ftell(f);
	CHECK(len > 0);
	CHECK_EQ(fseek(f, 0, SEEK_SET), 0);
	text = malloc((size_t)len + 1);
	CHECK(text && fread(text, 1, (size_t)len, f) == (size_t)len);
	text[len] = '\0';
	fclose(f);
	*ret_len = (size_t)len; /* at least 1 */
	return text;
}

static inline void fixture_parse(struct fixture *fx, const char *name, const char *text, size_t len)
{
	memset(fx, 0, sizeof(*fx));
	fx->name = name;
	if (gp_ptx_parse(text, len, &fx->module, &fx->err)) {
		fprintf(stderr, "%s: %s\n", name, fx->err.msg);
		exit(1);
	}
	CHECK(gp_ptx_n_globals(fx->module) <= 64);
	for (size_t i = 0; i < gp_ptx_n_globals(fx->module); i++) {
		fx->globals[i] = calloc(1, gp_ptx_global_at(fx->module, i)->size_bytes + 1);
		CHECK(fx->globals[i]);
		gp_ptx_global_bind(fx->module, i, (uint64_t)(uintptr_t)fx->globals[i]);
	}
	for (size_t i = 0; i < gp_ptx_n_globals(fx->module); i++) {
		const struct gp_ptx_global *g = gp_ptx_global_at(fx->module, i);

		if (g->init)
			memcpy(fx->globals[i], g->init, g->init_bytes);
	}
	fx->scratch = gp_exec_scratch_new();
	CHECK(fx->scratch);
}

static inline void fixture_open(struct fixture *fx, const char *name)
{
	size_t len;
	char *text = fixture_read(name, &len);

	fixture_parse(fx, name, text, len);
	free(text);
}

static inline void fixture_close(struct fixture *fx)
{
	for (size_t i = 0; i < gp_ptx_n_globals(fx->module); i++)
		free(fx->globals[i]);
	gp_exec_scratch_free(fx->scratch);
	gp_ptx_module_free(fx->module);
}

/* Packs 4- and 8-byte arguments by the kernel's layout; the rest is taken by address. */
struct fixture_args {
	unsigned char data[4096];
	uint32_t n;
	const struct gp_ptx_kernel *kernel;
};

static inline void fixture_arg(struct fixture_args *args, const void *value, size_t size)
{
	struct gp_ptx_kernel_info info;

	gp_ptx_kernel_get_info(args->kernel, &info);
	CHECK(args->n < info.n_params);
	CHECK_EQ(info.params[args->n].size_bytes, size);
	memcpy(args->data + info.params[args->n].offset_bytes, value, size);
	args->n++;
}

#define ARG(args, type, value)                                                                     \
	do {                                                                                       \
		type arg_v = (value);                                                              \
		fixture_arg(&(args), &arg_v, sizeof(arg_v));                                       \
	} while (0)

static inline struct fixture_args fixture_args(struct fixture *fx, const char *kernel)
{
	struct fixture_args args = { .kernel = gp_ptx_kernel_find(fx->module, kernel) };

	CHECK(args.kernel);
	return args;
}

/* gx and gy blocks of bx by by threads; the first error. */
static inline int fixture_try(struct fixture *fx, struct fixture_args *args, uint32_t gx,
			      uint32_t gy, uint32_t bx, uint32_t by, uint32_t dyn)
{
	struct gp_exec_launch launch = {
		.kernel = args->kernel,
		.grid = { gx, gy, 1 },
		.block = { bx, by, 1 },
		.dyn_shared_bytes = dyn,
		.params = args->data,
		.stop = &fx->stop,
		.park = fx->park,
		.park_arg = fx->park_arg,
	};
	int r = 0;

	for (uint64_t b = 0; b < (uint64_t)gx * gy && !r; b++)
		r = gp_exec_block(&launch, b, fx->scratch, &fx->err);
	return r;
}

static inline void fixture_run(struct fixture *fx, struct fixture_args *args, uint32_t gx,
			       uint32_t gy, uint32_t bx, uint32_t by, uint32_t dyn)
{
	if (fixture_try(fx, args, gx, gy, bx, by, dyn)) {
		fprintf(stderr, "%s: %s\n", fx->name, fx->err.msg);
		exit(1);
	}
}

#endif
