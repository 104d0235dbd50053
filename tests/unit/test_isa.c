/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single instructions against the definitions of the PTX ISA, written out here bit by bit, over
 * edge cases and random operands, with whole and with partial warps; then what instructions do to
 * each other: guards, divergence, warp-wide operations, indexed branches.
 */
#include "tests/unit/ptx_fixture.h"

#include <math.h>
#include <stdbool.h>

#define HEADER ".version 8.7\n.target sm_90\n.address_size 64\n"
#define LANES  32

static const uint64_t edges[] = {
	0,
	1,
	2,
	7,
	8,
	31,
	32,
	33,
	63,
	64,
	65,
	127,
	128,
	255,
	256,
	0x7fff,
	0x8000,
	0xffff,
	0x7fffffff,
	0x80000000,
	0x80000001,
	0xffffffff,
	0x100000000,
	0x7fffffffffffffff,
	0x8000000000000000,
	0xffffffffffffffff,
	0x7fc00000,
	0xffc00000,
	0x7f800000,
	0xff800000,
	0x3f800000,
	0xbf800000,
	0x3f000000,
	0xbf000000,
	0x3fc00000,
	0x40200000,
	0xbfc00000,
	0x4f000000,
	0xcf000000,
	0xcf000001,
	0x4f800000,
	0x5f000000,
	0x5f800000,
	0xdf000000,
	0x00400000,
	0x80400000,
	0x437f0000,
	0x437f8000,
	0x43000000,
	0xc3008000,
	0x7ff8000000000000,
	0x7ff0000000000000,
	0xfff0000000000000,
	0x3ff0000000000000,
	0xbff0000000000000,
	0x3fe0000000000000,
	0xbfe0000000000000,
	0x4004000000000000,
	0x41dfffffffc00000,
	0x41e0000000000000,
	0xc1e0000000200000,
	0x41f0000000000000,
	0x43e0000000000000,
	0xc3e0000000000000,
	0x43f0000000000000,
	0x7fefffffffffffff,
	0x406fe00000000000,
	0x40f0000000000000,
};

static uint64_t rng_state = 88172645463325252ull;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

static uint64_t operand(void)
{
	uint64_t v = edges[rng() % (sizeof(edges) / sizeof(edges[0]))];

	switch (rng() % 4) {
	case 0:
		return rng();
	case 1:
		return v ^ (rng() & 3);
	default:
		return v;
	}
}

static float to_float(uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float v;

	memcpy(&v, &low, sizeof(v));
	return v;
}

static double to_double(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static uint64_t of_float(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

static uint64_t of_double(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

static void parse(struct fixture *fx, const char *name, const char *body)
{
	char text[8192];
	int n = snprintf(
		text, sizeof(text),
		HEADER ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
		       ".reg .pred %%p<10>;\n.reg .b16 %%h<10>;\n.reg .b32 %%r<10>, %%t<20>;\n"
		       ".reg .b64 %%d<20>;\n.reg .f32 %%f<10>;\n.reg .f64 %%e<10>;\n"
		       ".shared .align 16 .b8 buf[1024];\n"
		       "ld.param.u64 %%d10, [in];\nld.param.u64 %%d11, [out];\n"
		       "mov.u32 %%t10, %%tid.x;\nmul.wide.u32 %%d12, %%t10, 32;\n"
		       "add.u64 %%d10, %%d10, %%d12;\nmul.wide.u32 %%d12, %%t10, 8;\n"
		       "add.u64 %%d11, %%d11, %%d12;\n"
		       "ld.global.u64 %%d1, [%%d10];\nld.global.u64 %%d2, [%%d10+8];\n"
		       "ld.global.u64 %%d3, [%%d10+16];\nld.global.u64 %%d4, [%%d10+24];\n"
		       "cvt.u32.u64 %%r1, %%d1;\ncvt.u32.u64 %%r2, %%d2;\n"
		       "cvt.u32.u64 %%r3, %%d3;\ncvt.u32.u64 %%r4, %%d4;\n"
		       "cvt.u16.u64 %%h1, %%d1;\ncvt.u16.u64 %%h2, %%d2;\ncvt.u16.u64 %%h3, %%d3;\n"
		       "mov.b32 %%f1, %%r1;\nmov.b32 %%f2, %%r2;\nmov.b32 %%f3, %%r3;\n"
		       "mov.b64 %%e1, %%d1;\nmov.b64 %%e2, %%d2;\nmov.b64 %%e3, %%d3;\n"
		       "and.b32 %%t1, %%r3, 1;\nsetp.ne.u32 %%p1, %%t1, 0;\n"
		       "mov.u64 %%d9, 0;\n%s\nst.global.u64 [%%d11], %%d9;\nret;\n}\n",
		body);

	CHECK(n > 0 && (size_t)n < sizeof(text));
	fixture_parse(fx, name, text, (size_t)n);
}

struct lane_in {
	uint64_t a, b, c, d;
};

static void run(struct fixture *fx, struct lane_in *in, uint64_t *out, uint32_t lanes)
{
	struct fixture_args args = fixture_args(fx, "k");

	ARG(args, void *, in);
	ARG(args, void *, out);
	fixture_run(fx, &args, 1, 1, lanes, 1, 0);
}

typedef uint64_t ref_fn(uint64_t a, uint64_t b, uint64_t c, unsigned int param);

/* How the result gets into %d9. */
#define OUT_R " cvt.u64.u32 %d9, %r9;"
#define OUT_H " cvt.u64.u16 %d9, %h9;"
#define OUT_F " mov.b32 %r9, %f9; cvt.u64.u32 %d9, %r9;"
#define OUT_E " mov.b64 %d9, %e9;"
#define OUT_P " selp.u64 %d9, 1, 0, %p9;"
#define OUT_2 " selp.u64 %d9, 1, 0, %p9; selp.u64 %d8, 2, 0, %p8; or.b64 %d9, %d9, %d8;"

enum compare { EXACT, FLOAT32, FLOAT64 }; /* any NaN is as good as another */

static bool same(uint64_t got, uint64_t want, enum compare how)
{
	if (how == FLOAT32 && isnan(to_float(got)) && isnan(to_float(want)))
		return true;
	if (how == FLOAT64 && isnan(to_double(got)) && isnan(to_double(want)))
		return true;
	return got == want;
}

static void check_one(const char *body, ref_fn *ref, unsigned int param, enum compare how)
{
	struct fixture fx;

	parse(&fx, body, body);
	for (int round = 0; round < 200; round++) {
		struct lane_in in[LANES];
		uint64_t out[LANES];
		uint32_t lanes = round % 2 ? LANES : 19;

		for (uint32_t l = 0; l < LANES; l++)
			in[l] = (struct lane_in){ operand(), operand(), operand(), operand() };
		memset(out, 0x5a, sizeof(out));
		run(&fx, in, out, lanes);
		for (uint32_t l = 0; l < lanes; l++) {
			uint64_t want = ref(in[l].a, in[l].b, in[l].c, param);

			if (same(out[l], want, how))
				continue;
			fprintf(stderr, "%s of %#llx, %#llx, %#llx: %#llx, not %#llx\n", body,
				(unsigned long long)in[l].a, (unsigned long long)in[l].b,
				(unsigned long long)in[l].c, (unsigned long long)out[l],
				(unsigned long long)want);
			exit(1);
		}
		for (uint32_t l = lanes; l < LANES; l++)
			CHECK_EQ(out[l], 0x5a5a5a5a5a5a5a5aull);
	}
	fixture_close(&fx);
}

static uint64_t mask_of(unsigned int bits)
{
	return bits >= 64 ? UINT64_MAX : (1ull << bits) - 1;
}

static int64_t sign_of(uint64_t v, unsigned int bits)
{
	return bits == 64 ? (int64_t)v : (int64_t)(v << (64 - bits)) >> (64 - bits);
}

/* Bit fields: bits in .param, sign in bit 8. */

static uint64_t ref_bfe(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	unsigned int msb = (param & 0xff) - 1, pos = b & 0xff, len = c & 0xff, top = pos + len - 1;
	uint64_t sbit = 0, d = 0;

	if (param >> 8 && len)
		sbit = a >> (top < msb ? top : msb) & 1;
	for (unsigned int i = 0; i <= msb; i++)
		d |= (i < len && pos + i <= msb ? a >> (pos + i) & 1 : sbit) << i;
	return d;
}

static uint64_t ref_bfi(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	unsigned int msb = param - 1, pos = c & 0xff, len = 11;
	uint64_t f = b & mask_of(param);

	for (unsigned int i = 0; i < len && pos + i <= msb; i++)
		f = (f & ~(1ull << (pos + i))) | (a >> i & 1) << (pos + i);
	return f;
}

static uint64_t ref_bfi_len(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	unsigned int msb = param - 1, pos = 3, len = c & 0xff;
	uint64_t f = b & mask_of(param);

	for (unsigned int i = 0; i < len && pos + i <= msb; i++)
		f = (f & ~(1ull << (pos + i))) | (a >> i & 1) << (pos + i);
	return f;
}

static uint64_t ref_bfind(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	int msb = (int)(param & 0xff) - 1;
	bool is_signed = param >> 8 & 1, shiftamt = param >> 9 & 1;

	if (is_signed && a >> msb & 1)
		a = ~a;
	for (int i = msb; i >= 0; i--)
		if (a >> i & 1)
			return (uint64_t)(shiftamt ? msb - i : i);
	return UINT32_MAX;
}

static uint64_t ref_lop3(uint64_t a, uint64_t b, uint64_t c, unsigned int lut)
{
	uint64_t d = 0;

	for (int i = 0; i < 32; i++)
		d |= (uint64_t)(lut >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1)
		     << i;
	return d;
}

static uint64_t ref_shl(uint64_t a, uint64_t b, uint64_t c, unsigned int bits)
{
	uint32_t n = (uint32_t)b;

	return n >= bits ? 0 : (a << n) & mask_of(bits);
}

static uint64_t ref_shr(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	unsigned int bits = param & 0xff;
	uint32_t n = (uint32_t)b;

	if (param >> 8)
		return (uint64_t)(sign_of(a, bits) >> (n >= bits ? bits - 1 : n)) & mask_of(bits);
	return n >= bits ? 0 : (a & mask_of(bits)) >> n;
}

/* 0 l.clamp, 1 l.wrap, 2 r.clamp, 3 r.wrap */
static uint64_t ref_shf(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	uint32_t n = (uint32_t)c, lo = (uint32_t)a, hi = (uint32_t)b;

	n = param & 1 ? n & 31 : n < 32 ? n : 32;
	if (param & 2)
		return n == 0 ? lo : n == 32 ? hi : (hi << (32 - n) | lo >> n);
	return n == 0 ? hi : n == 32 ? lo : (hi << n | lo >> (32 - n));
}

static uint64_t ref_bmsk(uint64_t a, uint64_t b, uint64_t c, unsigned int wrap)
{
	uint32_t pos = (uint32_t)a, len = (uint32_t)b;
	uint64_t d = 0;

	pos = wrap ? pos & 31 : pos;
	len = wrap ? len & 31 : len;
	for (uint32_t i = 0; i < 32; i++)
		d |= (uint64_t)(i >= pos && i - pos < len) << i;
	return d;
}

static uint64_t ref_prmt(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	uint64_t bytes = b << 32 | (uint32_t)a, d = 0;

	for (int i = 0; i < 4; i++) {
		unsigned int sel = c >> (4 * i) & 15, byte = bytes >> (8 * (sel & 7)) & 255;

		d |= (uint64_t)(sel & 8 ? (byte & 128 ? 255u : 0u) : byte) << (8 * i);
	}
	return d;
}

static void test_bits_when_any_operands_then_as_defined(void)
{
	static const uint8_t luts[] = { 0x00, 0x01, 0x80, 0x96, 0xe8, 0xca, 0xd8, 0x6a,
					0x3c, 0xf0, 0xcc, 0xaa, 0xfe, 0xff, 0x27, 0x1b };
	char body[64];

	check_one("bfe.u32 %r9, %r1, %r2, %r3;" OUT_R, ref_bfe, 32, EXACT);
	check_one("bfe.s32 %r9, %r1, %r2, %r3;" OUT_R, ref_bfe, 0x100 | 32, EXACT);
	check_one("bfe.u64 %d9, %d1, %r2, %r3;", ref_bfe, 64, EXACT);
	check_one("bfe.s64 %d9, %d1, %r2, %r3;", ref_bfe, 0x100 | 64, EXACT);
	check_one("bfi.b32 %r9, %r1, %r2, %r3, 11;" OUT_R, ref_bfi, 32, EXACT);
	check_one("bfi.b64 %d9, %d1, %d2, %r3, 11;", ref_bfi, 64, EXACT);
	check_one("bfi.b32 %r9, %r1, %r2, 3, %r3;" OUT_R, ref_bfi_len, 32, EXACT);
	check_one("bfi.b64 %d9, %d1, %d2, 3, %r3;", ref_bfi_len, 64, EXACT);
	check_one("bfind.u32 %r9, %r1;" OUT_R, ref_bfind, 32, EXACT);
	check_one("bfind.s32 %r9, %r1;" OUT_R, ref_bfind, 0x100 | 32, EXACT);
	check_one("bfind.u64 %r9, %d1;" OUT_R, ref_bfind, 64, EXACT);
	check_one("bfind.shiftamt.s64 %r9, %d1;" OUT_R, ref_bfind, 0x300 | 64, EXACT);
	check_one("bfind.shiftamt.u32 %r9, %r1;" OUT_R, ref_bfind, 0x200 | 32, EXACT);
	check_one("shl.b16 %h9, %h1, %r2;" OUT_H, ref_shl, 16, EXACT);
	check_one("shl.b32 %r9, %r1, %r2;" OUT_R, ref_shl, 32, EXACT);
	check_one("shl.b64 %d9, %d1, %r2;", ref_shl, 64, EXACT);
	check_one("shr.u16 %h9, %h1, %r2;" OUT_H, ref_shr, 16, EXACT);
	check_one("shr.s16 %h9, %h1, %r2;" OUT_H, ref_shr, 0x100 | 16, EXACT);
	check_one("shr.b32 %r9, %r1, %r2;" OUT_R, ref_shr, 32, EXACT);
	check_one("shr.s32 %r9, %r1, %r2;" OUT_R, ref_shr, 0x100 | 32, EXACT);
	check_one("shr.u64 %d9, %d1, %r2;", ref_shr, 64, EXACT);
	check_one("shr.s64 %d9, %d1, %r2;", ref_shr, 0x100 | 64, EXACT);
	check_one("shf.l.clamp.b32 %r9, %r1, %r2, %r3;" OUT_R, ref_shf, 0, EXACT);
	check_one("shf.l.wrap.b32 %r9, %r1, %r2, %r3;" OUT_R, ref_shf, 1, EXACT);
	check_one("shf.r.clamp.b32 %r9, %r1, %r2, %r3;" OUT_R, ref_shf, 2, EXACT);
	check_one("shf.r.wrap.b32 %r9, %r1, %r2, %r3;" OUT_R, ref_shf, 3, EXACT);
	check_one("bmsk.clamp.b32 %r9, %r1, %r2;" OUT_R, ref_bmsk, 0, EXACT);
	check_one("bmsk.wrap.b32 %r9, %r1, %r2;" OUT_R, ref_bmsk, 1, EXACT);
	check_one("prmt.b32 %r9, %r1, %r2, %r3;" OUT_R, ref_prmt, 0, EXACT);
	for (size_t i = 0; i < sizeof(luts); i++) {
		snprintf(body, sizeof(body), "lop3.b32 %%r9, %%r1, %%r2, %%r3, %u;%s", luts[i],
			 OUT_R);
		check_one(body, ref_lop3, luts[i], EXACT);
	}
}

/* Integer arithmetic */

static uint64_t ref_div(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	unsigned int bits = param & 0xff;
	bool rem = param >> 9 & 1;
	uint64_t x = a & mask_of(bits), y = (b | 1) & mask_of(bits);
	int64_t s = sign_of(a, bits), t = sign_of(b | 1, bits);

	if (!(param >> 8 & 1))
		return rem ? x % y : x / y;
	if (t == -1)
		return rem ? 0 : (0 - (uint64_t)s) & mask_of(bits);
	return (uint64_t)(rem ? s % t : s / t) & mask_of(bits);
}

static uint64_t ref_wide(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	__int128 x = (int32_t)a, y = (int32_t)b;
	unsigned __int128 u = (__uint128_t)a * b;
	__int128 s = (__int128)(int64_t)a * (int64_t)b;

	switch (param) {
	case 0: /* mad.wide.s32 */
		return (uint64_t)(x * y) + c;
	case 1: /* mul.hi.u64 */
		return (uint64_t)(u >> 64);
	case 2: /* mad.hi.s64 */
		return (uint64_t)(s >> 64) + c;
	case 3: /* mul.hi.s32 */
		return (uint32_t)(x * y >> 32);
	case 4: /* mul24.lo.s32 */
		return (uint32_t)(sign_of(a, 24) * sign_of(b, 24));
	case 5: /* mul24.hi.u32 */
		return (uint32_t)((a & 0xffffff) * (b & 0xffffff) >> 16);
	case 6: /* sad.s32 */
		return (uint32_t)((uint64_t)(x > y ? x - y : y - x) + c);
	default: { /* add.sat.s32 */
		__int128 sum = x + y;

		sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
		return (uint32_t)sum;
	}
	}
}

/* The high or low half of a 64-bit (by 32) or 128-bit (by 64) result. */
static uint64_t ref_chain(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	unsigned __int128 wide = (__uint128_t)a * b + c;

	switch (param) {
	case 0:
		return a + b;
	case 1:
		return a - b;
	case 2:
		return (uint64_t)(wide >> 64);
	case 3: /* borrow of the whole */
		return a < b ? UINT64_MAX : 0;
	default: /* madc of 32-bit halves: a.lo * b.lo + c in two words */
		return (uint64_t)(uint32_t)a * (uint32_t)b + c;
	}
}

static void test_integers_when_any_operands_then_as_defined(void)
{
	check_one("or.b16 %h2, %h2, 1; div.s16 %h9, %h1, %h2;" OUT_H, ref_div, 0x110, EXACT);
	check_one("or.b32 %r2, %r2, 1; div.s32 %r9, %r1, %r2;" OUT_R, ref_div, 0x120, EXACT);
	check_one("or.b32 %r2, %r2, 1; div.u32 %r9, %r1, %r2;" OUT_R, ref_div, 0x020, EXACT);
	check_one("or.b64 %d2, %d2, 1; div.s64 %d9, %d1, %d2;", ref_div, 0x140, EXACT);
	check_one("or.b32 %r2, %r2, 1; rem.s32 %r9, %r1, %r2;" OUT_R, ref_div, 0x320, EXACT);
	check_one("or.b64 %d2, %d2, 1; rem.u64 %d9, %d1, %d2;", ref_div, 0x240, EXACT);
	check_one("mad.wide.s32 %d9, %r1, %r2, %d3;", ref_wide, 0, EXACT);
	check_one("mul.hi.u64 %d9, %d1, %d2;", ref_wide, 1, EXACT);
	check_one("mad.hi.s64 %d9, %d1, %d2, %d3;", ref_wide, 2, EXACT);
	check_one("mul.hi.s32 %r9, %r1, %r2;" OUT_R, ref_wide, 3, EXACT);
	check_one("mul24.lo.s32 %r9, %r1, %r2;" OUT_R, ref_wide, 4, EXACT);
	check_one("mul24.hi.u32 %r9, %r1, %r2;" OUT_R, ref_wide, 5, EXACT);
	check_one("sad.s32 %r9, %r1, %r2, %r3;" OUT_R, ref_wide, 6, EXACT);
	check_one("add.sat.s32 %r9, %r1, %r2;" OUT_R, ref_wide, 7, EXACT);
	check_one("mov.b64 {%t1,%t2}, %d1; mov.b64 {%t3,%t4}, %d2; add.cc.u32 %t5, %t1, %t3;"
		  "addc.u32 %t6, %t2, %t4; mov.b64 %d9, {%t5,%t6};",
		  ref_chain, 0, EXACT);
	check_one("mov.b64 {%t1,%t2}, %d1; mov.b64 {%t3,%t4}, %d2; sub.cc.u32 %t5, %t1, %t3;"
		  "subc.u32 %t6, %t2, %t4; mov.b64 %d9, {%t5,%t6};",
		  ref_chain, 1, EXACT);
	check_one("mad.lo.cc.u64 %d5, %d1, %d2, %d3; madc.hi.u64 %d9, %d1, %d2, 0;", ref_chain, 2,
		  EXACT);
	check_one("sub.cc.u64 %d5, %d1, %d2; subc.u64 %d9, 0, 0;", ref_chain, 3, EXACT);
	check_one("mov.b64 {%t1,%t2}, %d3; mad.lo.cc.u32 %t5, %r1, %r2, %t1;"
		  "madc.hi.u32 %t6, %r1, %r2, %t2; mov.b64 %d9, {%t5,%t6};",
		  ref_chain, 4, EXACT);
}

/* Conversions */

static uint64_t convert(double v, unsigned int bits, bool is_signed, bool from_f64, char round)
{
	double limit = ldexp(1.0, (int)bits - (is_signed ? 1 : 0));
	uint64_t max = is_signed ? mask_of(bits - 1) : mask_of(bits);

	if (isnan(v))
		return bits == 64 || from_f64 ? 1ull << ((bits - 1) & 63) : 0;
	v = round == 'z' ? trunc(v) : round == 'm' ? floor(v) : round == 'p' ? ceil(v) : rint(v);
	if (v >= limit)
		return max;
	if (is_signed && v < -limit)
		return 1ull << ((bits - 1) & 63);
	if (!is_signed && v < 0)
		return 0;
	return (is_signed ? (uint64_t)(int64_t)v : (uint64_t)v) & mask_of(bits);
}

/* bits | signed << 8 | from_f64 << 9 | round << 16 */
static uint64_t ref_cvt_int(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	bool from_f64 = param >> 9 & 1;
	unsigned int bits = param & 0xff;
	uint64_t v = convert(from_f64 ? to_double(a) : (double)to_float(a), bits, param >> 8 & 1,
			     from_f64, (char)(param >> 16));

	/* In a wider register the value is extended. */
	if (bits == 8 && param >> 8 & 1)
		v = (uint64_t)sign_of(v, 8) & 0xffff;
	return v;
}

static uint64_t ref_cvt_sat(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	unsigned int to = param & 0xff, from = param >> 16 & 0xff;
	bool to_signed = param >> 8 & 1, from_signed = param >> 24 & 1;
	__int128 v = from_signed ? (__int128)sign_of(a, from) : (__int128)(a & mask_of(from));
	__int128 hi = to_signed ? (__int128)mask_of(to - 1) : (__int128)mask_of(to);
	__int128 lo = to_signed ? -hi - 1 : 0;

	v = v > hi ? hi : v < lo ? lo : v;
	return (uint64_t)v & mask_of(to);
}

static uint64_t ref_cvt_float(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	switch (param) {
	case 0:
		return of_float((float)a);
	case 1:
		return of_float((float)(int64_t)a);
	case 2:
		return of_double((double)(uint32_t)a);
	case 3:
		return of_float((float)to_double(a));
	case 4:
		return of_double((double)to_float(a));
	case 5: {
		float v = to_float(a);

		return of_float(v > 0 ? (v < 1 ? v : 1) : 0);
	}
	default: /* towards zero */
		return of_float(fabsf((float)(int32_t)a) > fabs((double)(int32_t)a)
					? nextafterf((float)(int32_t)a, 0)
					: (float)(int32_t)a);
	}
}

static void test_conversions_when_out_of_range_or_nan_then_as_defined(void)
{
	static const struct {
		const char *type, *reg;
		unsigned int param;
	} to[] = { { "s8", "h9", 0x108 },  { "u8", "h9", 8 },	   { "s16", "h9", 0x110 },
		   { "u16", "h9", 16 },	   { "s32", "r9", 0x120 }, { "u32", "r9", 32 },
		   { "s64", "d9", 0x140 }, { "u64", "d9", 64 } };
	static const char rounds[] = "nzmp";

	for (size_t i = 0; i < sizeof(to) / sizeof(to[0]); i++) {
		for (int k = 0; k < 8; k++) {
			char body[128], round = rounds[k % 4];
			const char *out = to[i].reg[0] == 'h'	? OUT_H
					  : to[i].reg[0] == 'r' ? OUT_R
								: "";

			snprintf(body, sizeof(body), "cvt.r%ci.%s.f%d %%%s, %%%s;%s", round,
				 to[i].type, k < 4 ? 32 : 64, to[i].reg, k < 4 ? "f1" : "e1", out);
			check_one(body, ref_cvt_int,
				  to[i].param | (k < 4 ? 0 : 0x200) | (unsigned int)round << 16,
				  EXACT);
		}
	}
	check_one("cvt.sat.u8.s32 %r9, %r1;" OUT_R, ref_cvt_sat, 8 | 0x1200000, EXACT);
	check_one("cvt.sat.s16.u32 %r9, %r1;" OUT_R, ref_cvt_sat, 0x110 | 0x200000, EXACT);
	check_one("cvt.sat.u32.s64 %r9, %d1;" OUT_R, ref_cvt_sat, 32 | 0x1400000, EXACT);
	check_one("cvt.sat.s32.u64 %r9, %d1;" OUT_R, ref_cvt_sat, 0x120 | 0x400000, EXACT);
	check_one("cvt.sat.s64.u64 %d9, %d1;", ref_cvt_sat, 0x140 | 0x400000, EXACT);
	check_one("cvt.rn.f32.u64 %f9, %d1;" OUT_F, ref_cvt_float, 0, EXACT);
	check_one("cvt.rn.f32.s64 %f9, %d1;" OUT_F, ref_cvt_float, 1, EXACT);
	check_one("cvt.rn.f64.u32 %e9, %r1;" OUT_E, ref_cvt_float, 2, EXACT);
	check_one("cvt.rn.f32.f64 %f9, %e1;" OUT_F, ref_cvt_float, 3, FLOAT32);
	check_one("cvt.f64.f32 %e9, %f1;" OUT_E, ref_cvt_float, 4, FLOAT64);
	check_one("cvt.sat.f32.f32 %f9, %f1;" OUT_F, ref_cvt_float, 5, EXACT);
	check_one("cvt.rz.f32.s32 %f9, %r1;" OUT_F, ref_cvt_float, 6, EXACT);
}

/* Comparison and selection */

static bool compare(double x, double y, const char *cmp)
{
	bool nan = isnan(x) || isnan(y);
	bool unordered = strlen(cmp) == 3 && cmp[2] == 'u';

	if (!strcmp(cmp, "num"))
		return !nan;
	if (!strcmp(cmp, "nan"))
		return nan;
	if (nan)
		return unordered;
	switch (cmp[0]) {
	case 'e':
		return x == y;
	case 'n':
		return x != y;
	case 'l':
		return cmp[1] == 't' ? x < y : x <= y;
	default:
		return cmp[1] == 't' ? x > y : x >= y;
	}
}

static const char *const float_compares[] = { "eq",  "ne",  "lt",  "le",  "gt",	 "ge",	"equ",
					      "neu", "ltu", "leu", "gtu", "geu", "num", "nan" };

static uint64_t ref_fsetp(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	return compare(to_float(a), to_float(b), float_compares[param]);
}

/* p = cmp and !c, q = !cmp and !c */
static uint64_t ref_dsetp(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	bool t = compare(to_double(a), to_double(b), float_compares[param]), n = !(c & 1);

	return (t && n ? 1u : 0u) | (!t && n ? 2u : 0u);
}

static uint64_t ref_isetp(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	switch (param) {
	case 0:
		return (int32_t)a < (int32_t)b;
	case 1:
		return (uint32_t)a < (uint32_t)b;
	case 2:
		return (int16_t)a >= (int16_t)b;
	case 3:
		return (int64_t)a > (int64_t)b;
	case 4:
		return ((uint32_t)a <= (uint32_t)b) ^ (c & 1);
	case 5: /* selp.b32 a, b, !c */
		return (uint32_t)(c & 1 ? b : a);
	case 6: /* set.lt.u32.f32 */
		return to_float(a) < to_float(b) ? UINT32_MAX : 0;
	case 7: /* slct.b32.s32 */
		return (uint32_t)((int32_t)c >= 0 ? a : b);
	case 8: /* slct.b64.f32 */
		return to_float(c) >= 0 ? a : b;
	default: /* set.ne.f32.s32 */
		return (uint32_t)a != (uint32_t)b ? 0x3f800000 : 0;
	}
}

/* is_max | nan << 1 */
static uint64_t ref_minmax32(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	float x = to_float(a), y = to_float(b);
	bool less;

	if ((isnan(x) && isnan(y)) || (param & 2 && (isnan(x) || isnan(y))))
		return 0x7fffffff;
	if (isnan(x) || isnan(y))
		return of_float(isnan(x) ? y : x);
	less = x < y || (x == y && signbit(x) && !signbit(y));
	return of_float(less == !(param & 1) ? x : y);
}

static uint64_t ref_minmax64(uint64_t a, uint64_t b, uint64_t c, unsigned int param)
{
	double x = to_double(a), y = to_double(b);
	bool less;

	if (isnan(x) && isnan(y))
		return 0x7fffffffffffffff;
	if (isnan(x) || isnan(y))
		return of_double(isnan(x) ? y : x);
	less = x < y || (x == y && signbit(x) && !signbit(y));
	return of_double(less == !(param & 1) ? x : y);
}

static void test_compare_when_nan_or_signed_zero_then_as_defined(void)
{
	for (unsigned int i = 0; i < 14; i++) {
		char body[256];

		snprintf(body, sizeof(body), "setp.%s.f32 %%p9, %%f1, %%f2;%s", float_compares[i],
			 OUT_P);
		check_one(body, ref_fsetp, i, EXACT);
		snprintf(body, sizeof(body), "setp.%s.and.f64 %%p9|%%p8, %%e1, %%e2, !%%p1;%s",
			 float_compares[i], OUT_2);
		check_one(body, ref_dsetp, i, EXACT);
	}
	check_one("setp.lt.s32 %p9, %r1, %r2;" OUT_P, ref_isetp, 0, EXACT);
	check_one("setp.lo.u32 %p9, %r1, %r2;" OUT_P, ref_isetp, 1, EXACT);
	check_one("setp.ge.s16 %p9, %h1, %h2;" OUT_P, ref_isetp, 2, EXACT);
	check_one("setp.gt.s64 %p9, %d1, %d2;" OUT_P, ref_isetp, 3, EXACT);
	check_one("setp.le.xor.u32 %p9, %r1, %r2, %p1;" OUT_P, ref_isetp, 4, EXACT);
	check_one("not.pred %p2, %p1; selp.b32 %r9, %r1, %r2, %p2;" OUT_R, ref_isetp, 5, EXACT);
	check_one("set.lt.u32.f32 %r9, %f1, %f2;" OUT_R, ref_isetp, 6, EXACT);
	check_one("slct.b32.s32 %r9, %r1, %r2, %r3;" OUT_R, ref_isetp, 7, EXACT);
	check_one("slct.b64.f32 %d9, %d1, %d2, %f3;", ref_isetp, 8, EXACT);
	check_one("set.ne.f32.s32 %f9, %r1, %r2;" OUT_F, ref_isetp, 9, EXACT);
	check_one("min.f32 %f9, %f1, %f2;" OUT_F, ref_minmax32, 0, EXACT);
	check_one("max.f32 %f9, %f1, %f2;" OUT_F, ref_minmax32, 1, EXACT);
	check_one("min.NaN.f32 %f9, %f1, %f2;" OUT_F, ref_minmax32, 2, EXACT);
	check_one("max.NaN.f32 %f9, %f1, %f2;" OUT_F, ref_minmax32, 3, EXACT);
	check_one("min.f64 %e9, %e1, %e2;" OUT_E, ref_minmax64, 0, EXACT);
	check_one("max.f64 %e9, %e1, %e2;" OUT_E, ref_minmax64, 1, EXACT);
}

/* Between lanes; the first lane's operands count where lanes have to agree. */

static void each_round(const char *body,
		       void (*check)(const struct lane_in *in, const uint64_t *out, uint32_t lanes))
{
	struct fixture fx;

	parse(&fx, body, body);
	for (int round = 0; round < 100; round++) {
		struct lane_in in[LANES];
		uint64_t out[LANES];
		uint32_t lanes = round % 2 ? LANES : 19;

		for (uint32_t l = 0; l < LANES; l++)
			in[l] = (struct lane_in){ operand(), operand(), operand(), operand() };
		memset(out, 0x5a, sizeof(out));
		run(&fx, in, out, lanes);
		check(in, out, lanes);
	}
	fixture_close(&fx);
}

/* Lanes with an odd c, and the others, each on their own. */
static uint32_t side_of(const struct lane_in *in, uint32_t lanes, uint32_t l)
{
	uint32_t mask = 0;

	for (uint32_t k = 0; k < lanes; k++)
		mask |= (in[k].c & 1) == (in[l].c & 1) ? 1u << k : 0;
	return mask;
}

#define BY_SIDE                                                                                    \
	"vote.sync.ballot.b32 %t3, %p1, -1; not.b32 %t4, %t3; selp.b32 %t5, %t3, %t4, %p1;"        \
	"@%p1 bra ODD; mov.u32 %t6, 0; "

static void check_redux(const struct lane_in *in, const uint64_t *out, uint32_t lanes)
{
	for (uint32_t l = 0; l < lanes; l++) {
		uint32_t side = side_of(in, lanes, l), add = 0, or = 0;
		int32_t min = INT32_MAX;

		for (uint32_t k = 0; k < lanes; k++) {
			if (!(side >> k & 1))
				continue;
			add += (uint32_t)in[k].a;
			or |= (uint32_t)in[k].a;
			min = (int32_t)in[k].a < min ? (int32_t)in[k].a : min;
		}
		CHECK_EQ(out[l], (uint64_t)(add ^ or) << 32 | (uint32_t)min);
	}
}

static void check_max_and(const struct lane_in *in, const uint64_t *out, uint32_t lanes)
{
	uint32_t max = 0, and = UINT32_MAX, xor = 0;

	for (uint32_t l = 0; l < lanes; l++) {
		max = (uint32_t)in[l].a > max ? (uint32_t)in[l].a : max;
		and &= (uint32_t)in[l].b;
		xor ^= (uint32_t)in[l].b;
	}
	for (uint32_t l = 0; l < lanes; l++)
		CHECK_EQ(out[l], (uint64_t)(and^xor) << 32 | max);
}

static void check_shfl(const struct lane_in *in, const uint64_t *out, uint32_t lanes)
{
	for (uint32_t l = 0; l < lanes; l++) {
		uint32_t side = side_of(in, lanes, l);
		uint32_t from = (uint32_t)__builtin_ctz(side);

		CHECK_EQ(out[l], in[from].a & UINT32_MAX);
	}
}

/* All odd lanes have bit 1 of a? Any even lane? */
static void check_vote(const struct lane_in *in, const uint64_t *out, uint32_t lanes)
{
	for (uint32_t l = 0; l < lanes; l++) {
		uint32_t side = side_of(in, lanes, l), bits = 0;
		bool odd = in[l].c & 1;

		for (uint32_t k = 0; k < lanes; k++)
			bits |= in[k].a & 2 ? 1u << k : 0;
		CHECK_EQ(out[l] & 1, odd ? (bits & side) == side : (bits & side) != 0);
		CHECK_EQ(out[l] >> 32, odd ? ~bits & side : bits & side);
	}
}

/* One address, all lanes: every old value was seen by exactly one. */
static void check_atom(const struct lane_in *in, const uint64_t *out, uint32_t lanes)
{
	uint64_t seen = 0;

	for (uint32_t l = 0; l < lanes; l++) {
		CHECK(out[l] % 3 == 0 && out[l] / 3 < lanes);
		seen |= 1ull << out[l] / 3;
	}
	CHECK_EQ(seen, mask_of(lanes));
}

static void check_guarded(const struct lane_in *in, const uint64_t *out, uint32_t lanes)
{
	for (uint32_t l = 0; l < lanes; l++)
		CHECK_EQ(out[l], in[l].c & 1 ? 0x5a5a5a5a5a5a5a5aull : in[l].a);
}

static void check_sub_words(const struct lane_in *in, const uint64_t *out, uint32_t lanes)
{
	for (uint32_t l = 0; l < lanes; l++)
		CHECK_EQ(out[l], (uint64_t)(int64_t)(int8_t)(in[l].a >> 8) +
					 (uint64_t)(uint8_t)(in[l].a >> 8) * 3 +
					 (uint64_t)(int64_t)(int16_t)in[l].b * 5 +
					 (uint64_t)(int64_t)(int32_t)in[l].b * 7 +
					 (uint64_t)(uint32_t)(int32_t)(int8_t)in[l].c * 11);
}

static void check_vector_over_address(const struct lane_in *in, const uint64_t *out, uint32_t lanes)
{
	for (uint32_t l = 0; l < lanes; l++)
		CHECK_EQ(out[l], (in[l].a & 0xff) << 32 | (in[l].a >> 8 & 0xff));
}

static void test_lanes_when_partial_masks_then_as_defined(void)
{
	each_round(BY_SIDE "redux.sync.add.s32 %r5, %r1, %t5; redux.sync.or.b32 %r6, %r1, %t5;"
			   "redux.sync.min.s32 %r7, %r1, %t5; bra END;\nODD:\n"
			   "redux.sync.add.u32 %r5, %r1, %t5; redux.sync.or.b32 %r6, %r1, %t5;"
			   "redux.sync.min.s32 %r7, %r1, %t5;\nEND:\n"
			   "xor.b32 %r5, %r5, %r6; mov.b64 %d9, {%r7,%r5};",
		   check_redux);
	each_round("redux.sync.max.u32 %r5, %r1, -1; redux.sync.and.b32 %r6, %r2, -1;"
		   "redux.sync.xor.b32 %r7, %r2, -1; xor.b32 %r6, %r6, %r7;"
		   "mov.b64 %d9, {%r5,%r6};",
		   check_max_and);
	each_round(BY_SIDE "brev.b32 %t7, %t5; clz.b32 %t7, %t7;"
			   "shfl.sync.idx.b32 %r9, %r1, %t7, 31, %t5; bra END;\nODD:\n"
			   "brev.b32 %t7, %t5; clz.b32 %t7, %t7;"
			   "shfl.sync.idx.b32 %r9, %r1, %t7, 31, %t5;\nEND:\n" OUT_R,
		   check_shfl);
	each_round("and.b32 %t8, %r1, 2; setp.ne.u32 %p3, %t8, 0;" BY_SIDE
		   "vote.sync.any.pred %p4, %p3, %t5; vote.sync.ballot.b32 %r6, %p3, %t5;"
		   "bra END;\nODD:\nvote.sync.all.pred %p4, %p3, %t5;"
		   "vote.sync.ballot.b32 %r6, !%p3, %t5;\nEND:\n"
		   "selp.b32 %r5, 1, 0, %p4; mov.b64 %d9, {%r5,%r6};",
		   check_vote);
}

static void test_memory_when_narrow_or_shared_address_then_as_defined(void)
{
	each_round("mov.u32 %t1, buf; mov.u32 %t2, 0; setp.eq.u32 %p5, %t10, 0;"
		   "@%p5 st.shared.u32 [%t1], %t2; bar.warp.sync -1;"
		   "atom.shared.add.u32 %r9, [%t1], 3;" OUT_R,
		   check_atom);
	each_round("@%p1 ret; mov.u64 %d9, %d1;", check_guarded);
	each_round("mov.u64 %d9, 1; @%p1 mov.u64 %d11, 0; @!%p1 st.global.u64 [%d11], %d1;"
		   "@%p1 exit; mov.u64 %d9, %d1;",
		   check_guarded);
	each_round("ld.global.s8 %r5, [%d10+1]; cvt.s64.s32 %d5, %r5; ld.global.u8 %h5, [%d10+1];"
		   "cvt.u64.u16 %d6, %h5; mad.lo.u64 %d5, %d6, 3, %d5;"
		   "ld.global.s16 %d6, [%d10+8]; mad.lo.u64 %d5, %d6, 5, %d5;"
		   "ld.global.s32 %d6, [%d10+8]; mad.lo.u64 %d5, %d6, 7, %d5;"
		   "ld.global.s8 %r5, [%d10+16]; cvt.u64.u32 %d6, %r5;"
		   "mad.lo.u64 %d9, %d6, 11, %d5;",
		   check_sub_words);
	each_round("mov.u32 %t1, buf; shl.b32 %t2, %t10, 3; add.u32 %t1, %t1, %t2;"
		   "st.shared.u64 [%t1], %d1; ld.shared.v2.u8 {%t1,%t2}, [%t1];"
		   "mov.b64 %d9, {%t2,%t1};",
		   check_vector_over_address);
}

/* brx.idx: four cases, one of them the way back; in a function, too. */
static const char brx_ptx[] =
	HEADER ".func (.param .b32 ret) pick(.param .b32 arg)\n{\n.reg .b32 %r<4>;\n"
	       "ld.param.b32 %r1, [arg];\n"
	       "T:\n.branchtargets A, B, C;\n"
	       "brx.idx %r1, T;\n"
	       "C:\nadd.u32 %r1, %r1, 100;\nbra.uni D;\n"
	       "B:\nmov.u32 %r1, 0;\nbrx.idx %r1, T;\n"
	       "A:\nadd.u32 %r1, %r1, 1000;\n"
	       "D:\nst.param.b32 [ret], %r1;\nret;\n}\n"
	       ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b32 %r<9>;\n"
	       ".reg .b64 %d<5>;\nld.param.u64 %d1, [out];\nmov.u32 %r1, %tid.x;\n"
	       "mul.wide.u32 %d2, %r1, 8;\nadd.u64 %d1, %d1, %d2;\nmov.u32 %r4, 0;\n"
	       "rem.u32 %r2, %r1, 5;\n"
	       "T: .branchtargets L0, L1, L2, L3, L4;\n"
	       "AGAIN:\nadd.u32 %r4, %r4, 1;\nbrx.idx %r2, T;\n"
	       "L3:\nmov.u32 %r2, 1;\nbra.uni AGAIN;\n"
	       "L2:\nmov.u32 %r3, 7;\nbra.uni END;\n"
	       "L1:\nmov.u32 %r3, 5;\nbra.uni END;\n"
	       "L0:\nmov.u32 %r3, 3;\nbra.uni END;\n"
	       "L4:\nmov.u32 %r2, 3;\nbra.uni AGAIN;\n"
	       "END:\nmad.lo.u32 %r5, %r4, 16, %r3;\nrem.u32 %r6, %r1, 3;\n"
	       "{\n.param .b32 a;\n.param .b32 r;\nst.param.b32 [a], %r6;\n"
	       "call.uni (r), pick, (a);\nld.param.b32 %r7, [r];\n}\n"
	       "mov.b64 %d3, {%r5,%r7};\nst.global.u64 [%d1], %d3;\nret;\n}\n";

static void test_brx_when_divergent_then_every_lane_its_way(void)
{
	static const uint32_t value[5] = { 3, 5, 7, 5, 5 }, steps[5] = { 1, 1, 1, 2, 3 };
	static const uint32_t picked[3] = { 1000, 1000, 102 };
	struct fixture fx;
	uint64_t out[64];

	fixture_parse(&fx, "brx", brx_ptx, strlen(brx_ptx));
	run(&fx, NULL, out, 64);
	for (uint32_t l = 0; l < 64; l++)
		CHECK_EQ(out[l],
			 (uint64_t)picked[l % 3] << 32 | (steps[l % 5] * 16 + value[l % 5]));
	fixture_close(&fx);
}

/* bar.red, named barriers with counts, threads that left before. */
static const char bar_ptx[] =
	HEADER ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b32 %r<9>;\n"
	       ".reg .pred %p<9>;\n.reg .b64 %d<5>;\n.shared .align 4 .b32 word;\n"
	       "ld.param.u64 %d1, [out];\nmov.u32 %r1, %tid.x;\n"
	       "mul.wide.u32 %d2, %r1, 8;\nadd.u64 %d1, %d1, %d2;\n"
	       "setp.ge.u32 %p1, %r1, 96;\n@%p1 bra LEAVE;\n"
	       "and.b32 %r2, %r1, 1;\nsetp.eq.u32 %p2, %r2, 0;\n"
	       "bar.red.popc.u32 %r3, 0, !%p2;\n"
	       "setp.lt.u32 %p3, %r1, 32;\n@%p3 bra PRODUCE;\n"
	       "bar.sync 1, 96;\nld.shared.u32 %r4, [word];\nbra.uni JOIN;\n"
	       "PRODUCE:\nmov.u32 %r4, 77;\nst.shared.u32 [word], %r4;\nbar.arrive 1, 96;\n"
	       "JOIN:\nbar.red.and.pred %p4, 0, %p2;\nbar.red.or.pred %p5, 0, %p2;\n"
	       "selp.u32 %r5, 1, 0, %p4;\nselp.u32 %r6, 2, 0, %p5;\nor.b32 %r5, %r5, %r6;\n"
	       "mad.lo.u32 %r4, %r4, 8, %r5;\nmov.b64 %d3, {%r3,%r4};\n"
	       "st.global.u64 [%d1], %d3;\nLEAVE:\nret;\n}\n";

static void test_barriers_when_named_counted_or_reducing_then_complete(void)
{
	struct fixture fx;
	uint64_t out[128];

	fixture_parse(&fx, "bar", bar_ptx, strlen(bar_ptx));
	run(&fx, NULL, out, 128);
	for (uint32_t l = 0; l < 96; l++)
		CHECK_EQ(out[l], (77ull * 8 + 2) << 32 | 48);
	fixture_close(&fx);
}

int main(void)
{
	test_bits_when_any_operands_then_as_defined();
	test_integers_when_any_operands_then_as_defined();
	test_conversions_when_out_of_range_or_nan_then_as_defined();
	test_compare_when_nan_or_signed_zero_then_as_defined();
	test_lanes_when_partial_masks_then_as_defined();
	test_memory_when_narrow_or_shared_address_then_as_defined();
	test_brx_when_divergent_then_every_lane_its_way();
	test_barriers_when_named_counted_or_reducing_then_complete();
	return 0;
}
