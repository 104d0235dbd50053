/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_EXEC_OPS_MEM_H
#define GP_SHIM_SOFT_EXEC_OPS_MEM_H
/*
 * Loads, stores, atomics. Device addresses are host addresses; .shared ones are offsets, turned
 * into addresses first and checked there, because a wrong one would hit the host program's memory
 * rather than a hole. x86 gives plain loads and stores acquire and release order, so the
 * memory-order qualifiers need code only in fences and atomics. Included once, by ops.c.
 */
#include "shim/soft/exec/ops.h"

enum ops_pattern { OPS_SCATTERED, OPS_UNIFORM, OPS_CONSECUTIVE };

/* Half warps are looked at one by one: rows of 16x16 blocks are that wide. */
#define OPS_HALF 16

/* Most half warps read one address or consecutive ones. */
static inline enum ops_pattern ops_pattern(const uint64_t *a, uint64_t size)
{
	uint64_t uniform = 0, consecutive = 0;

	for (int l = 0; l < OPS_HALF; l++) {
		uniform |= a[l] ^ a[0];
		consecutive |= (a[l] - a[0]) ^ (uint64_t)l * size;
	}
	return !uniform ? OPS_UNIFORM : !consecutive ? OPS_CONSECUTIVE : OPS_SCATTERED;
}

/* Addresses of .shared operands: base + offset + .imm, where all @size bytes must lie inside. */
static inline const uint64_t *ops_shared(struct gp_exec_warp *w, const struct gp_exec_ins *in,
					 uint32_t mask, uint64_t size, uint64_t *addr)
{
	SRC(uint32_t, a);
	uint64_t base = (uint64_t)(uintptr_t)w->shared;
	/* 32 bits, as the offsets: narrow compares are cheap on every level. */
	uint32_t limit = w->shared_bytes < size ? 0 : (uint32_t)(w->shared_bytes - size + 1);
	uint32_t imm = (uint32_t)in->imm, bad = 0;

	for (int l = 0; l < GP_EXEC_LANES; l++) {
		uint32_t at = a[l] + imm;

		addr[l] = base + at;
		bad |= at >= limit ? 1u << l : 0;
	}
	bad &= mask;
	if (__builtin_expect(bad != 0, 0))
		gp_exec_fault(w, a[__builtin_ctz(bad)] + imm);
	return addr;
}

#define OPS_SHARED_ADDR(size)                                                                      \
	uint64_t ops_addr[GP_EXEC_LANES];                                                          \
	const uint64_t *a = ops_shared(w, in, mask, size, ops_addr);                               \
	const int64_t imm = 0
#define OPS_GLOBAL_ADDR                                                                            \
	SRC(uint64_t, a);                                                                          \
	const int64_t imm = in->imm

/* Programs may use any alignment; the card would fault, here it works. */
#define OPS_AT(M, lane) (*(const M##_any *)(uintptr_t)(a[lane] + (uint64_t)imm))
#define OPS_TO(M, lane) (*(M##_any *)(uintptr_t)(a[lane] + (uint64_t)imm))
typedef uint8_t __attribute__((aligned(1), may_alias)) uint8_t_any;
typedef int8_t __attribute__((aligned(1), may_alias)) int8_t_any;
typedef uint16_t __attribute__((aligned(1), may_alias)) uint16_t_any;
typedef int16_t __attribute__((aligned(1), may_alias)) int16_t_any;
typedef uint32_t __attribute__((aligned(1), may_alias)) uint32_t_any;
typedef int32_t __attribute__((aligned(1), may_alias)) int32_t_any;
typedef uint64_t __attribute__((aligned(1), may_alias)) uint64_t_any;

#define OPS_LOAD_HALF(M, D, h)                                                                     \
	switch (ops_pattern(a + (h), sizeof(M))) {                                                 \
	case OPS_UNIFORM: {                                                                        \
		D v = (D)OPS_AT(M, h);                                                             \
		for (int l = 0; l < OPS_HALF; l++)                                                 \
			d[(h) + l] = v;                                                            \
		break;                                                                             \
	}                                                                                          \
	case OPS_CONSECUTIVE: {                                                                    \
		const M##_any *p = &OPS_AT(M, h);                                                  \
		OPS_IVDEP                                                                          \
		for (int l = 0; l < OPS_HALF; l++)                                                 \
			d[(h) + l] = (D)p[l];                                                      \
		break;                                                                             \
	}                                                                                          \
	default:                                                                                   \
		for (int l = (h); l < (h) + OPS_HALF; l++)                                         \
			d[l] = (D)OPS_AT(M, l);                                                    \
	}

#define OPS_LOAD(M, D)                                                                             \
	DST(D);                                                                                    \
	if (mask == OPS_ALL) {                                                                     \
		OPS_LOAD_HALF(M, D, 0)                                                             \
		OPS_LOAD_HALF(M, D, OPS_HALF)                                                      \
	} else {                                                                                   \
		OPS_EACH(d[l] = (D)OPS_AT(M, l));                                                  \
	}

#define OPS_STORE_HALF(M, h)                                                                       \
	if (ops_pattern(a + (h), sizeof(M)) == OPS_CONSECUTIVE) {                                  \
		M##_any *p = &OPS_TO(M, h);                                                        \
		OPS_IVDEP                                                                          \
		for (int l = 0; l < OPS_HALF; l++)                                                 \
			p[l] = (M)d[(h) + l];                                                      \
	} else {                                                                                   \
		for (int l = (h); l < (h) + OPS_HALF; l++)                                         \
			OPS_TO(M, l) = (M)d[l];                                                    \
	}

/* Where several lanes store to one address the highest lane wins, as in lane order. */
#define OPS_STORE(M, D)                                                                            \
	SRC(D, d);                                                                                 \
	if (mask == OPS_ALL) {                                                                     \
		OPS_STORE_HALF(M, 0)                                                               \
		OPS_STORE_HALF(M, OPS_HALF)                                                        \
	} else {                                                                                   \
		OPS_EACH(OPS_TO(M, l) = (M)d[l]);                                                  \
	}

#define DEF_MEM(t, M, dw, D)                                                                       \
	OP(ld_##t##_##dw)                                                                          \
	{                                                                                          \
		OPS_GLOBAL_ADDR;                                                                   \
		OPS_LOAD(M, D)                                                                     \
	}                                                                                          \
	OP(lds_##t##_##dw)                                                                         \
	{                                                                                          \
		OPS_SHARED_ADDR(sizeof(M));                                                        \
		OPS_LOAD(M, D)                                                                     \
	}                                                                                          \
	OP(st_##t##_##dw)                                                                          \
	{                                                                                          \
		OPS_GLOBAL_ADDR;                                                                   \
		OPS_STORE(M, D)                                                                    \
	}                                                                                          \
	OP(sts_##t##_##dw)                                                                         \
	{                                                                                          \
		OPS_SHARED_ADDR(sizeof(M));                                                        \
		OPS_STORE(M, D)                                                                    \
	}
#define DEF_MEM_D(t, M)                                                                            \
	DEF_MEM(t, M, 16, uint16_t)                                                                \
	DEF_MEM(t, M, 32, uint32_t)                                                                \
	DEF_MEM(t, M, 64, uint64_t)
DEF_MEM_D(u8, uint8_t)
DEF_MEM_D(s8, int8_t)
DEF_MEM_D(u16, uint16_t)
DEF_MEM_D(s16, int16_t)
DEF_MEM_D(u32, uint32_t)
DEF_MEM_D(s32, int32_t)
DEF_MEM_D(u64, uint64_t)

/*
 * Vectors: .aux elements of 4 or 8 bytes in registers d, b, c, e. Programs rely on 16 aligned bytes
 * being read and written at once (decoupled look-back), so they go through one vector access, which
 * every x86-64-v2 and later CPU with AVX makes atomic.
 */
typedef uint64_t ops_v128 __attribute__((vector_size(16), may_alias));

static inline void ops_copy_in(void *to, const void *from, size_t bytes)
{
	if (bytes == 16 && !((uintptr_t)from & 15))
		*(ops_v128 *)to = *(const volatile ops_v128 *)from;
	else if (bytes == 8)
		*(uint64_t *)to = *(const uint64_t_any *)from;
	else
		memcpy(to, from, bytes);
}

static inline void ops_copy_out(void *to, const void *from, size_t bytes)
{
	if (bytes == 16 && !((uintptr_t)to & 15))
		*(volatile ops_v128 *)to = *(const ops_v128 *)from;
	else if (bytes == 8)
		*(uint64_t_any *)to = *(const uint64_t *)from;
	else
		memcpy(to, from, bytes);
}

#define OPS_VECTOR_REGS(T)                                                                         \
	T *reg[4] = { 0 };                                                                         \
	const uint32_t field[4] = { in->d, in->b, in->c, in->e };                                  \
	int n = in->aux;                                                                           \
	_Alignas(32) T buf[4];                                                                     \
	for (int k = 0; k < n; k++)                                                                \
	reg[k] = field[k] == GP_EXEC_NONE ? NULL : gp_exec_lanes(w, field[k])

#define OPS_LOAD_VECTOR(T)                                                                         \
	OPS_VECTOR_REGS(T);                                                                        \
	OPS_EACH(ops_copy_in(buf, (const void *)(uintptr_t)(a[l] + (uint64_t)imm),                 \
			     (size_t)n * sizeof(T));                                               \
		 for (int k = 0; k < n; k++) if (reg[k]) reg[k][l] = buf[k])

#define OPS_STORE_VECTOR(T)                                                                        \
	OPS_VECTOR_REGS(T);                                                                        \
	OPS_EACH(for (int k = 0; k < n; k++) buf[k] = reg[k] ? reg[k][l] : 0; ops_copy_out(        \
			 (void *)(uintptr_t)(a[l] + (uint64_t)imm), buf, (size_t)n * sizeof(T)))

#define DEF_VECTOR(size, T)                                                                        \
	OP(ldv_##size)                                                                             \
	{                                                                                          \
		OPS_GLOBAL_ADDR;                                                                   \
		OPS_LOAD_VECTOR(T);                                                                \
	}                                                                                          \
	OP(stv_##size)                                                                             \
	{                                                                                          \
		OPS_GLOBAL_ADDR;                                                                   \
		OPS_STORE_VECTOR(T);                                                               \
	}                                                                                          \
	OP(ldsv_##size)                                                                            \
	{                                                                                          \
		OPS_SHARED_ADDR(in->aux * sizeof(T));                                              \
		OPS_LOAD_VECTOR(T);                                                                \
	}                                                                                          \
	OP(stsv_##size)                                                                            \
	{                                                                                          \
		OPS_SHARED_ADDR(in->aux * sizeof(T));                                              \
		OPS_STORE_VECTOR(T);                                                               \
	}
DEF_VECTOR(4, uint32_t)
DEF_VECTOR(8, uint64_t)

/* mov of a .local variable's address; each lane has its own copy. */
OP(local_addr)
{
	uint64_t base = (uint64_t)(uintptr_t)w->local + (uint64_t)in->imm;
	DST(uint64_t);

	OPS_PURE(uint64_t, base + (uint64_t)l * w->local_stride);
}

/* Address of a .shared operand of .b bytes, for operations that know generic addresses only. */
OP(shared_addr)
{
	OPS_SHARED_ADDR(in->b);
	DST(uint64_t);

	OPS_PURE(uint64_t, a[l] + (uint64_t)imm);
}

OP(cvta_shared)
{
	uint64_t base = (uint64_t)(uintptr_t)w->shared;
	SRC(uint64_t, a);
	DST(uint64_t);

	OPS_PURE(uint64_t, base + (uint32_t)a[l]);
}

OP(cvta_to_shared)
{
	uint64_t base = (uint64_t)(uintptr_t)w->shared;
	SRC(uint64_t, a);
	DST(uint64_t);

	OPS_PURE(uint64_t, a[l] - base);
}

/* isspacep; .aux is the space. What is neither shared nor local counts as global. */
OP(isspace)
{
	uint64_t shared = (uint64_t)(uintptr_t)w->shared, local = (uint64_t)(uintptr_t)w->local;
	uint64_t local_bytes = w->local_stride * GP_EXEC_LANES;
	uint32_t bits = 0;
	SRC(uint64_t, a);

	for (int l = 0; l < GP_EXEC_LANES; l++) {
		bool is_shared = a[l] - shared < w->shared_bytes;
		bool is_local = a[l] - local < local_bytes;
		bool hit = in->aux == GP_PTX_SPACE_SHARED   ? is_shared
			   : in->aux == GP_PTX_SPACE_LOCAL  ? is_local
			   : in->aux == GP_PTX_SPACE_GLOBAL ? !is_shared && !is_local
							    : false;

		bits |= hit ? 1u << l : 0;
	}
	gp_exec_set_pred(w, in->d, bits, mask);
}

OP(fence)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Atomics are the CPU's own: other threads run other blocks and other processes map the memory. */
#define OPS_ATOM_RESULT(T, expr)                                                                   \
	SRC(uint64_t, a);                                                                          \
	T *d = in->d == GP_EXEC_NONE ? NULL : gp_exec_lanes(w, in->d);                             \
	OPS_EACH(T *p = (T *)(uintptr_t)(a[l] + (uint64_t)in->imm); T old = (expr);                \
		 if (d) d[l] = old)

#define DEF_ATOM(name, T, expr)                                                                    \
	OP(atom_##name)                                                                            \
	{                                                                                          \
		SRC(T, b);                                                                         \
		OPS_ATOM_RESULT(T, expr);                                                          \
	}
#define DEF_ATOM_D(name, expr)                                                                     \
	DEF_ATOM(name##_u32, uint32_t, expr)                                                       \
	DEF_ATOM(name##_u64, uint64_t, expr)
DEF_ATOM_D(add, __atomic_fetch_add(p, b[l], __ATOMIC_SEQ_CST))
DEF_ATOM_D(and, __atomic_fetch_and(p, b[l], __ATOMIC_SEQ_CST))
DEF_ATOM_D(or, __atomic_fetch_or(p, b[l], __ATOMIC_SEQ_CST))
DEF_ATOM_D(xor, __atomic_fetch_xor(p, b[l], __ATOMIC_SEQ_CST))
DEF_ATOM_D(exch, __atomic_exchange_n(p, b[l], __ATOMIC_SEQ_CST))

/* The rest is compare-and-swap until nobody interfered. @next sees the old value as old. */
#define DEF_ATOM_LOOP(name, S, T, V, next)                                                         \
	static inline S ops_atom_##name(S *p, T v)                                                 \
	{                                                                                          \
		S seen = __atomic_load_n(p, __ATOMIC_RELAXED), want;                               \
		do {                                                                               \
			V old;                                                                     \
			memcpy(&old, &seen, sizeof(old));                                          \
			V result = (V)(next);                                                      \
			memcpy(&want, &result, sizeof(want));                                      \
		} while (!__atomic_compare_exchange_n(p, &seen, want, false, __ATOMIC_SEQ_CST,     \
						      __ATOMIC_RELAXED));                          \
		return seen;                                                                       \
	}                                                                                          \
	OP(atom_##name)                                                                            \
	{                                                                                          \
		SRC(T, b);                                                                         \
		OPS_ATOM_RESULT(S, ops_atom_##name(p, b[l]));                                      \
	}
DEF_ATOM_LOOP(add_f32, uint32_t, float, float, old + v)
DEF_ATOM_LOOP(add_f64, uint64_t, double, double, old + v)
DEF_ATOM_LOOP(min_u32, uint32_t, uint32_t, uint32_t, old < v ? old : v)
DEF_ATOM_LOOP(min_u64, uint64_t, uint64_t, uint64_t, old < v ? old : v)
DEF_ATOM_LOOP(min_s32, uint32_t, int32_t, int32_t, old < v ? old : v)
DEF_ATOM_LOOP(min_s64, uint64_t, int64_t, int64_t, old < v ? old : v)
DEF_ATOM_LOOP(max_u32, uint32_t, uint32_t, uint32_t, old > v ? old : v)
DEF_ATOM_LOOP(max_u64, uint64_t, uint64_t, uint64_t, old > v ? old : v)
DEF_ATOM_LOOP(max_s32, uint32_t, int32_t, int32_t, old > v ? old : v)
DEF_ATOM_LOOP(max_s64, uint64_t, int64_t, int64_t, old > v ? old : v)
DEF_ATOM_LOOP(inc_u32, uint32_t, uint32_t, uint32_t, old >= v ? 0 : old + 1)
DEF_ATOM_LOOP(dec_u32, uint32_t, uint32_t, uint32_t, !old || old > v ? v : old - 1)

#define DEF_CAS(t, T)                                                                              \
	static inline T ops_cas_##t(T *p, T expected, T desired)                                   \
	{                                                                                          \
		__atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_SEQ_CST,        \
					    __ATOMIC_SEQ_CST);                                     \
		return expected;                                                                   \
	}                                                                                          \
	OP(atom_cas_##t)                                                                           \
	{                                                                                          \
		SRC(T, b);                                                                         \
		SRC(T, c);                                                                         \
		OPS_ATOM_RESULT(T, ops_cas_##t(p, b[l], c[l]));                                    \
	}
DEF_CAS(u32, uint32_t)
DEF_CAS(u64, uint64_t)

#endif
