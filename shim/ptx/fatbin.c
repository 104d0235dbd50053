/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout, as observed in what nvcc 13 writes (all little-endian):
 *   wrapper  u32 magic 0x466243B1, u32 version, const void *fatbin, const void *extra
 *   header   u32 magic 0xBA55ED50, u16 version 1, u16 header bytes, u64 bytes of all entries
 *   entry    u16 kind, u16 version, u32 header bytes, u64 payload bytes (padded),
 *            u32 compressed bytes @16, u32 sm @28, u64 flags @40, u64 uncompressed bytes @56
 * An image in memory comes without its size, so its own header bounds it; nothing outside the size
 * stated there is read, and every entry is checked against it.
 */
#include "shim/ptx/fatbin.h"

#include "shim/ptx/fatbin_internal.h"

#include <errno.h>
#include <limits.h>
#include <lz4.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <zstd.h>

#define FATBIN_WRAPPER_MAGIC 0x466243B1u
#define FATBIN_MAGIC	     0xBA55ED50u
#define FATBIN_HEADER_BYTES  16
#define FATBIN_ENTRY_BYTES   64 /* the fixed part */
#define FATBIN_KIND_PTX	     1
#define FATBIN_FLAG_LZ4	     0x2000u
#define FATBIN_FLAG_ZSTD     0x8000u
/* More PTX than this in one entry is taken for corruption. */
#define FATBIN_MAX_TEXT_BYTES (1ull << 30)

struct fatbin_entry {
	const uint8_t *payload;
	uint64_t payload_bytes;
	uint64_t text_bytes; /* when uncompressed; 0 for raw */
	uint64_t flags;
	uint32_t compressed_bytes;
	uint32_t sm;
	uint16_t kind;
};

static uint16_t fatbin_u16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint32_t fatbin_u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint64_t fatbin_u64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Decodes the entry at *@at and moves *@at behind it. @avail: bytes left in the fatbin. */
static int fatbin_next_entry(const uint8_t **at, uint64_t *avail, struct fatbin_entry *ret_entry,
			     struct gp_err *err)
{
	const uint8_t *p = *at;
	uint64_t header, payload;

	if (*avail < FATBIN_ENTRY_BYTES)
		return gp_err_set(err, -EINVAL, "fatbin: truncated entry header");
	header = fatbin_u32(p + 4);
	payload = fatbin_u64(p + 8);
	if (header < FATBIN_ENTRY_BYTES || header > *avail || payload > *avail - header)
		return gp_err_set(err, -EINVAL, "fatbin: entry reaches beyond the image");
	*ret_entry = (struct fatbin_entry){ .kind = fatbin_u16(p),
					    .compressed_bytes = fatbin_u32(p + 16),
					    .sm = fatbin_u32(p + 28),
					    .flags = fatbin_u64(p + 40),
					    .text_bytes = fatbin_u64(p + 56),
					    .payload = p + header,
					    .payload_bytes = payload };
	*at = p + header + payload;
	*avail -= header + payload;
	return 0;
}

static int fatbin_unpack(const struct fatbin_entry *entry, char *text, struct gp_err *err)
{
	size_t n;
	int r;

	if (entry->flags & FATBIN_FLAG_ZSTD) {
		n = ZSTD_decompress(text, entry->text_bytes, entry->payload,
				    entry->compressed_bytes);
		if (ZSTD_isError(n) || n != entry->text_bytes)
			return gp_err_set(err, -EINVAL,
					  "fatbin: zstd payload does not decompress: %s",
					  ZSTD_isError(n) ? ZSTD_getErrorName(n) : "wrong size");
	} else if (entry->flags & FATBIN_FLAG_LZ4) {
		r = LZ4_decompress_safe((const char *)entry->payload, text,
					(int)entry->compressed_bytes, (int)entry->text_bytes);
		if (r < 0 || (uint64_t)r != entry->text_bytes)
			return gp_err_set(err, -EINVAL, "fatbin: LZ4 payload does not decompress");
	} else {
		memcpy(text, entry->payload, entry->payload_bytes);
	}
	return 0;
}

static int fatbin_extract(const struct fatbin_entry *entry, char **ret_text, size_t *ret_len,
			  struct gp_err *err)
{
	bool is_packed = entry->flags & (FATBIN_FLAG_ZSTD | FATBIN_FLAG_LZ4);
	uint64_t bytes = is_packed ? entry->text_bytes : entry->payload_bytes;
	gp_auto_free char *text = NULL;
	int r;

	if (!bytes || bytes > FATBIN_MAX_TEXT_BYTES)
		return gp_err_set(err, -EINVAL, "fatbin: PTX entry states an impossible size");
	if (is_packed &&
	    (entry->compressed_bytes > entry->payload_bytes || entry->compressed_bytes > INT_MAX))
		return gp_err_set(err, -EINVAL,
				  "fatbin: compressed entry reaches beyond its payload");
	text = malloc(bytes + 1);
	if (!text)
		return gp_err_set(err, -ENOMEM, "fatbin: no memory for %llu bytes of PTX",
				  (unsigned long long)bytes);
	r = fatbin_unpack(entry, text, err);
	if (r)
		return r;
	text[bytes] = '\0';
	*ret_len = strnlen(text, bytes);
	*ret_text = gp_take_ptr(text);
	return 0;
}

static int fatbin_search(const uint8_t *image, uint64_t avail, unsigned int sm, char **ret_text,
			 size_t *ret_len, struct gp_err *err)
{
	struct fatbin_entry entry = { 0 }, best = { 0 };
	uint64_t header, bytes;
	unsigned int n_entries = 0, lowest = UINT_MAX;
	const uint8_t *at;
	int r;

	if (avail < FATBIN_HEADER_BYTES)
		return gp_err_set(err, -EINVAL, "fatbin: truncated header");
	header = fatbin_u16(image + 6);
	bytes = fatbin_u64(image + 8);
	if (header < FATBIN_HEADER_BYTES || header > avail || bytes > avail - header)
		return gp_err_set(err, -EINVAL, "fatbin: header states an impossible size");
	at = image + header;
	while (bytes) {
		r = fatbin_next_entry(&at, &bytes, &entry, err);
		if (r)
			return r;
		n_entries++;
		if (entry.kind != FATBIN_KIND_PTX)
			continue;
		if (entry.sm < lowest)
			lowest = entry.sm;
		if (entry.sm <= sm && (!best.payload || entry.sm >= best.sm))
			best = entry;
	}
	if (best.payload)
		return fatbin_extract(&best, ret_text, ret_len, err);
	if (lowest != UINT_MAX)
		return gp_err_set(
			err, -ENOEXEC,
			"the program carries PTX for sm_%u and later only, the device is sm_%u",
			lowest, sm);
	if (n_entries)
		return gp_err_set(err, -ENOEXEC,
				  "the program carries machine code only: compile it with PTX "
				  "(nvcc -gencode arch=compute_75,code=compute_75)");
	*ret_text = NULL;
	*ret_len = 0;
	return 0;
}

static int fatbin_copy_text(const char *image, size_t len, char **ret_text, size_t *ret_len,
			    struct gp_err *err)
{
	char *text = malloc(len + 1);

	if (!text)
		return gp_err_set(err, -ENOMEM, "no memory for %zu bytes of PTX", len);
	memcpy(text, image, len);
	text[len] = '\0';
	*ret_text = text;
	*ret_len = len;
	return 0;
}

/* PTX text starts with comments, blanks and then a directive; machine code with "\177ELF". */
static bool fatbin_is_text(const uint8_t *image, uint64_t avail)
{
	return avail && (*image == '.' || *image == '/' || *image == ' ' || *image == '\n' ||
			 *image == '\t' || *image == '\r');
}

int gp_fatbin_find_ptx_bounded(const void *image, uint64_t avail, unsigned int sm, char **ret_text,
			       size_t *ret_len, struct gp_err *err)
{
	const uint8_t *p = image;
	const void *inner;
	size_t len;

	if (fatbin_is_text(p, avail)) {
		len = avail == GP_FATBIN_UNBOUNDED ? strlen(image) : strnlen(image, avail);
		return fatbin_copy_text(image, len, ret_text, ret_len, err);
	}
	if (avail < 4)
		return gp_err_set(err, -EINVAL, "module image is truncated");
	if (fatbin_u32(p) == FATBIN_WRAPPER_MAGIC) {
		if (avail < 16)
			return gp_err_set(err, -EINVAL, "fatbin: truncated wrapper");
		memcpy(&inner, p + 8, sizeof(inner));
		/* The wrapper's pointer leads out of what the caller could bound. */
		if (!inner || fatbin_u32(inner) != FATBIN_MAGIC)
			return gp_err_set(err, -EINVAL, "fatbin: the wrapper holds no fatbin");
		return fatbin_search(inner, GP_FATBIN_UNBOUNDED, sm, ret_text, ret_len, err);
	}
	if (fatbin_u32(p) == FATBIN_MAGIC)
		return fatbin_search(p, avail, sm, ret_text, ret_len, err);
	if (!memcmp(p, "\177ELF", 4))
		return gp_err_set(err, -ENOEXEC, "the module is machine code: it has to carry PTX");
	return gp_err_set(err, -EINVAL, "module image is no fatbin, PTX or ELF");
}

int gp_fatbin_find_ptx(const void *image, unsigned int sm, char **ret_text, size_t *ret_len,
		       struct gp_err *err)
{
	return gp_fatbin_find_ptx_bounded(image, GP_FATBIN_UNBOUNDED, sm, ret_text, ret_len, err);
}
