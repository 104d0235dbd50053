/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fatbin reader on images that nvcc made, and on damaged copies of them.
 */
#include "shim/ptx/fatbin.h"

#include "shim/ptx/fatbin_internal.h"
#include "tests/unit/ptx_fixture.h"

#include <errno.h>

static void test_fatbin_when_compressed_or_raw_then_same_text(void)
{
	static const char *const names[] = { "tiny_zstd.fatbin", "tiny_lz4.fatbin",
					     "tiny_raw.fatbin" };
	char *first = NULL;

	for (int i = 0; i < 3; i++) {
		size_t len, text_len;
		char *image = fixture_read(names[i], &len), *text;
		struct {
			uint32_t magic, version;
			const void *data, *extra;
		} wrapper = { 0x466243b1, 1, image, NULL };
		struct gp_err err;

		CHECK(!gp_fatbin_find_ptx(image, 90, &text, &text_len, &err));
		CHECK_EQ(text_len, strlen(text));
		CHECK(strstr(text, ".target sm_80"));
		free(text);
		CHECK(!gp_fatbin_find_ptx(image, 79, &text, &text_len, &err));
		CHECK(strstr(text, ".target sm_75"));
		free(text);
		CHECK_EQ(gp_fatbin_find_ptx(image, 70, &text, &text_len, &err), -ENOEXEC);
		CHECK(!gp_fatbin_find_ptx(&wrapper, 120, &text, &text_len, &err));
		CHECK(strstr(text, ".target sm_80") && strstr(text, "tiny"));
		if (first)
			CHECK(!strcmp(first, text));
		free(first);
		first = text;
		free(image);
	}
	free(first);
}

static void test_image_when_no_fatbin_then_text_or_error(void)
{
	static const char text[] = "\n.version 9.0\n";
	static const uint64_t empty[2] = { 0x00100001ba55ed50ull, 0 };
	struct gp_err err;
	size_t len;
	char *ptx;

	CHECK(!gp_fatbin_find_ptx(text, 90, &ptx, &len, &err));
	CHECK_EQ(len, strlen(text));
	free(ptx);
	CHECK(!gp_fatbin_find_ptx(empty, 90, &ptx, &len, &err));
	CHECK_EQ(len, 0);
	CHECK(!ptx);
	CHECK_EQ(gp_fatbin_find_ptx("\177ELFxxxxxxxxx", 90, &ptx, &len, &err), -ENOEXEC);
	CHECK_EQ(gp_fatbin_find_ptx("garbage", 90, &ptx, &len, &err), -EINVAL);
}

static void try_copy(const char *image, size_t len)
{
	char *copy = malloc(len ? len : 1), *text; /* exact size: sanitizers see the end */
	struct gp_err err;
	size_t text_len;

	CHECK(copy);
	memcpy(copy, image, len);
	if (!gp_fatbin_find_ptx_bounded(copy, len, 90, &text, &text_len, &err))
		free(text);
	free(copy);
}

static void test_fatbin_when_damaged_then_survives(void)
{
	static const char *const names[] = { "tiny_zstd.fatbin", "tiny_lz4.fatbin",
					     "tiny_raw.fatbin" };
	uint32_t seed = 99;

	for (int i = 0; i < 3; i++) {
		size_t len;
		char *image = fixture_read(names[i], &len);

		CHECK(len > 0);
		for (size_t cut = 0; cut < len; cut += 7)
			try_copy(image, cut);
		for (int k = 0; k < 3000; k++) {
			size_t at;
			char saved;

			seed = seed * 1664525 + 1013904223;
			at = (seed >> 8) % (k & 1 ? 200 : len);
			saved = image[at];
			image[at] = (char)(seed >> 3);
			try_copy(image, len);
			image[at] = saved;
		}
		free(image);
	}
}

int main(void)
{
	test_fatbin_when_compressed_or_raw_then_same_text();
	test_image_when_no_fatbin_then_text_or_error();
	test_fatbin_when_damaged_then_survives();
	return 0;
}
