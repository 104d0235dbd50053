/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser: what kernels report, initial data, scopes, and broken input, which must give an error
 * with its line and never more than that.
 */
#include "tests/unit/ptx_fixture.h"

#include <errno.h>

#define HEAD ".version 9.0\n.target sm_75\n.address_size 64\n"

static void test_kernel_info_when_parsed_then_as_declared(void)
{
	static const char text[] = HEAD
		".visible .entry k(.param .u32 a, .param .align 8 .b8 s[24], .param .u8 c, .param "
		".u64 .ptr .global .align 4 p)\n.maxntid 128, 2, 1\n{\n"
		".shared .align 4 .b8 x[20];\n.shared .align 16 .b8 unused[64];\n"
		".local .align 4 .b8 l[12];\n.reg .b32 %r<3>;\nmov.u32 %r1, x;\nret;\n}\n";
	struct gp_ptx_kernel_info info;
	struct gp_ptx_module *module;
	struct gp_err err;

	CHECK(!gp_ptx_parse(text, sizeof(text), &module, &err));
	CHECK_EQ(gp_ptx_n_kernels(module), 1);
	CHECK(!gp_ptx_kernel_find(module, "q"));
	gp_ptx_kernel_get_info(gp_ptx_kernel_find(module, "k"), &info);
	CHECK_EQ(info.n_params, 4);
	CHECK_EQ(info.params[0].offset_bytes, 0);
	CHECK_EQ(info.params[1].offset_bytes, 8);
	CHECK_EQ(info.params[1].size_bytes, 24);
	CHECK_EQ(info.params[2].offset_bytes, 32);
	CHECK_EQ(info.params[3].offset_bytes, 40);
	CHECK_EQ(info.param_bytes, 48);
	CHECK_EQ(info.shared_bytes, 20);
	CHECK_EQ(info.local_bytes, 12);
	CHECK_EQ(info.max_threads, 256);
	gp_ptx_module_free(module);
}

static void test_globals_when_bound_then_pointers_are_patched(void)
{
	static const char text[] =
		HEAD ".global .align 4 .u32 t[3] = {7, 8, 9};\n.const .f32 f = 0f3FC00000;\n"
		     ".global .align 8 .u64 p[2] = {generic(t)+4, t};\n.global .b8 z[100];\n"
		     ".global .s16 m[4] = {{-1, 2}, {3, 4}};\n";
	struct gp_ptx_module *module;
	const struct gp_ptx_global *g;
	struct gp_err err;
	uint64_t pointers[2];
	float f;

	CHECK(!gp_ptx_parse(text, strlen(text), &module, &err));
	CHECK_EQ(gp_ptx_n_globals(module), 5);
	for (size_t i = 0; i < 5; i++)
		gp_ptx_global_bind(module, i, 0x1000 * (i + 1));
	g = gp_ptx_global_at(module, 0);
	CHECK_EQ(g->size_bytes, 12);
	CHECK_EQ(((const uint32_t *)g->init)[2], 9);
	g = gp_ptx_global_at(module, 1);
	CHECK(g->is_const);
	memcpy(&f, g->init, sizeof(f));
	CHECK(f == 1.5f);
	memcpy(pointers, gp_ptx_global_at(module, 2)->init, sizeof(pointers));
	CHECK_EQ(pointers[0], 0x1004);
	CHECK_EQ(pointers[1], 0x1000);
	CHECK(!gp_ptx_global_at(module, 3)->init);
	CHECK_EQ(((const int16_t *)gp_ptx_global_at(module, 4)->init)[0], -1);
	CHECK_EQ(((const int16_t *)gp_ptx_global_at(module, 4)->init)[3], 4);
	CHECK(!gp_ptx_global_at(module, 5));
	gp_ptx_module_free(module);
}

/* Inner registers hide outer ones; two scopes may use one label each. */
static void test_scopes_when_nested_then_names_are_local(void)
{
	static const char text[] = HEAD
		".visible .entry k(.param .u64 o)\n{\n.reg .b32 %r<4>;\n.reg .b64 %rd<2>;\n"
		".reg .pred %p;\nld.param.u64 %rd1, [o];\nmov.u32 %r1, 1;\n"
		"{\n.reg .b32 %r1;\nmov.u32 %r1, 50;\nL: setp.lt.u32 %p, %r1, 50;\n@%p bra L;\n"
		"mov.u32 %r2, %r1;\n}\n"
		"{\n.reg.pred p; .reg .b32 t;\nmov.u32 t, 0;\nL: add.u32 t, t, 1;\n"
		"setp.lt.u32 p, t, 5;\n@p bra L;\n@!p mov.u32 %r3, t;\n}\n"
		"add.u32 %r1, %r1, %r2;\nadd.u32 %r1, %r1, %r3;\nst.global.u32 [%rd1], %r1;\n"
		"bra.uni END;\nst.global.u32 [%rd1], 0;\nEND: ret;\n}\n";
	struct gp_exec_scratch *scratch = gp_exec_scratch_new();
	struct gp_exec_launch launch = { .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
	struct gp_ptx_module *module;
	struct gp_err err = { 0 };
	uint32_t out = 0;
	uint64_t param = (uint64_t)(uintptr_t)&out;

	if (gp_ptx_parse(text, strlen(text), &module, &err))
		fprintf(stderr, "%s\n", err.msg);
	CHECK(!err.code);
	launch.kernel = gp_ptx_kernel_at(module, 0);
	launch.params = &param;
	CHECK(!gp_exec_block(&launch, 0, scratch, &err));
	CHECK_EQ(out, 56);
	gp_exec_scratch_free(scratch);
	gp_ptx_module_free(module);
}

/* f465 and func_retval0 share a bucket of the symbol table. */
static void test_function_when_name_collides_with_its_result_then_still_known(void)
{
	static const char text[] =
		HEAD ".func (.param .b32 func_retval0) f465()\n{\n"
		     "st.param.b32 [func_retval0], 7;\nret;\n}\n"
		     ".visible .entry k()\n{\n.param .b32 r;\ncall.uni (r), f465, ();\nret;\n}\n";
	struct gp_ptx_module *module;
	struct gp_err err = { 0 };

	if (gp_ptx_parse(text, strlen(text), &module, &err))
		fprintf(stderr, "%s\n", err.msg);
	CHECK(!err.code);
	gp_ptx_module_free(module);
}

static void test_unsupported_opcode_when_reached_then_named_with_line(void)
{
	static const char text[] =
		HEAD ".visible .entry k()\n{\n.reg .b32 %r<4>;\nmov.u32 %r1, 1;\n"
		     "frobnicate.sync.b32 %r1, {%r2, %r3}, [%r1];\nret;\n}\n";
	struct gp_exec_scratch *scratch = gp_exec_scratch_new();
	struct gp_exec_launch launch = { .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
	struct gp_ptx_module *module;
	struct gp_err err;

	CHECK(!gp_ptx_parse(text, strlen(text), &module, &err));
	launch.kernel = gp_ptx_kernel_at(module, 0);
	CHECK_EQ(gp_exec_block(&launch, 0, scratch, &err), -EILSEQ);
	CHECK(strstr(err.msg, "ptx line 8: opcode 'frobnicate.sync.b32' is not supported"));
	gp_exec_scratch_free(scratch);
	gp_ptx_module_free(module);
}

static void test_broken_input_when_parsed_then_error_with_line(void)
{
	static const struct {
		const char *text, *expect;
	} cases[] = {
		{ "", "line 1" },
		{ "hello", "no .version" },
		{ HEAD ".visible .entry k(\n", "line" },
		{ HEAD ".visible .entry k()\n{\nbra NOWHERE;\n}\n", "line 6: 'NOWHERE'" },
		{ HEAD ".visible .entry k()\n{\nret\n}\n", "line 7: expected" },
		{ HEAD ".visible .entry k()\n{\nret;\n", "ends inside" },
		{ HEAD ".visible .entry k()\n{\n@%p bra X;\n}\n", "no predicate" },
		{ HEAD ".visible .entry k()\n{\n.reg .b32 %r<99999999>;\n}\n", "too many" },
		{ HEAD ".visible .entry k()\n{\n.reg .q32 %r;\n}\n", "type" },
		{ HEAD ".visible .entry k()\n{\nadd.u32 [[[[[[[[[[[[1;\n}\n", "nested" },
		{ HEAD ".global .u32 x[2] = {1, 2, 3};\n", "too many initial" },
		{ HEAD ".global .u32 x[99999999999] = {1};\n", "large" },
		{ HEAD ".global .align 3 .u32 x;\n", "alignment" },
		{ HEAD ".wibble 3;\n", "'.wibble'" },
	};
	struct gp_ptx_module *module;
	struct gp_err err;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		CHECK(gp_ptx_parse(cases[i].text, strlen(cases[i].text), &module, &err) < 0);
		if (!strstr(err.msg, cases[i].expect))
			fprintf(stderr, "case %zu: %s\n", i, err.msg);
		CHECK(strstr(err.msg, cases[i].expect));
	}
}

/* Every kernel of the text is decoded too, which must not misbehave either. */
static void parse_and_decode(const char *text, size_t len)
{
	struct gp_ptx_module *module;
	struct gp_err err;

	if (!gp_ptx_parse(text, len, &module, &err))
		gp_ptx_module_free(module);
}

static void test_damaged_text_when_parsed_then_survives(void)
{
	size_t len;
	char *text = fixture_read("kernels_sm90.ptx", &len);
	uint32_t seed = 12345;

	CHECK(len > 0);
	for (size_t cut = 0; cut < len; cut += 1777)
		parse_and_decode(text, cut);
	for (int i = 0; i < 300; i++) {
		size_t at;
		char saved;

		seed = seed * 1664525 + 1013904223;
		at = seed % len;
		saved = text[at];
		text[at] = "{}[]();,.%<>0x\"@!|+-"[seed >> 27 & 15];
		parse_and_decode(text, len);
		text[at] = saved;
	}
	free(text);
}

int main(void)
{
	test_kernel_info_when_parsed_then_as_declared();
	test_globals_when_bound_then_pointers_are_patched();
	test_scopes_when_nested_then_names_are_local();
	test_function_when_name_collides_with_its_result_then_still_known();
	test_unsupported_opcode_when_reached_then_named_with_line();
	test_broken_input_when_parsed_then_error_with_line();
	test_damaged_text_when_parsed_then_survives();
	return 0;
}
