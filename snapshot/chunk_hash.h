/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SNAPSHOT_CHUNK_HASH_H
#define GP_SNAPSHOT_CHUNK_HASH_H
/*
 * 128-bit keyed hash of one chunk, defined once for the CPU and for the GPU (compiles as C and as
 * CUDA C). It guards against faulty copies, disks and memory and recognises unchanged chunks; it
 * is no cryptographic hash, though without the key collisions cannot be prepared.
 *
 * A chunk is 131072 vectors of 16 bytes, little endian words (x, y). Lane t of 512 absorbs the
 * vectors t, t + 512, ... in order, so that neighbouring GPU threads read neighbouring bytes. One
 * step is
 *
 *	a = rotl((a ^ x) * M1, 29) + b;   b = rotl((b ^ y) * M2, 31) + a;
 *
 * M1 and M2 are odd, so a step is a bijection of (a, b) for given (x, y) and of (x, y) for given
 * (a, b): a lane never forgets a difference by itself. Lanes start from the key and their number
 * and end with four more steps. They are combined by a tree of fixed shape: for stride = 256,
 * 128, ..., 1, lane t < stride absorbs the state of lane t + stride and is stirred once. Lane 0
 * then holds the hash.
 */
#ifdef __CUDACC__
typedef unsigned long long gp_hash_word; /* nvcc on its own has no need of the C library */
typedef unsigned int gp_hash_index;
#define GP_HASH_FN static __device__ __forceinline__
#else
#include <stdint.h>
typedef uint64_t gp_hash_word;
typedef uint32_t gp_hash_index;
#define GP_HASH_FN static inline
#endif

#define GP_HASH_LANES	    512
#define GP_HASH_CHUNK_BYTES (2u << 20)
#define GP_HASH_ROUNDS	    (GP_HASH_CHUNK_BYTES / 16 / GP_HASH_LANES)

/* Leading 64 fractional bits (odd) of the golden ratio and of the square roots of 3 and 11. */
#define GP_HASH_M1 0x9e3779b97f4a7c15ull
#define GP_HASH_M2 0xbb67ae8584caa73bull
#define GP_HASH_M3 0x510e527fade682d1ull

struct gp_hash_key {
	gp_hash_word k[2];
};

/* What one pass over a chunk yields. Written by the device: plain 64-bit words. */
struct gp_chunk_sum {
	gp_hash_word hash[2];
	gp_hash_word nonzero; /* 0: every byte of the chunk is zero */
};

struct gp_hash_state {
	gp_hash_word a, b;
};

GP_HASH_FN gp_hash_word gp_hash_rotl(gp_hash_word v, int n)
{
	return (v << n) | (v >> (64 - n));
}

GP_HASH_FN void gp_hash_step(struct gp_hash_state *s, gp_hash_word x, gp_hash_word y)
{
	s->a = gp_hash_rotl((s->a ^ x) * GP_HASH_M1, 29) + s->b;
	s->b = gp_hash_rotl((s->b ^ y) * GP_HASH_M2, 31) + s->a;
}

/* Bijective; every input bit reaches every output bit. */
GP_HASH_FN void gp_hash_stir(struct gp_hash_state *s, gp_hash_word tweak)
{
	gp_hash_step(s, tweak, GP_HASH_M3);
	gp_hash_step(s, s->b >> 32, s->a >> 32);
	gp_hash_step(s, GP_HASH_M3, tweak);
	gp_hash_step(s, s->b >> 29, s->a >> 31);
}

GP_HASH_FN struct gp_hash_state gp_hash_lane(struct gp_hash_key key, gp_hash_index lane)
{
	struct gp_hash_state s;

	s.a = key.k[0] ^ (lane + 1) * GP_HASH_M2;
	s.b = key.k[1] ^ (lane + 1) * GP_HASH_M1;
	gp_hash_stir(&s, lane);
	return s;
}

GP_HASH_FN void gp_hash_lane_end(struct gp_hash_state *s, gp_hash_index lane)
{
	gp_hash_stir(s, lane);
}

/* One node of the tree: @low is lane t, @high lane t + @stride. */
GP_HASH_FN void gp_hash_combine(struct gp_hash_state *low, const struct gp_hash_state *high,
				gp_hash_index stride)
{
	gp_hash_step(low, high->a, high->b);
	gp_hash_stir(low, stride);
}

#ifndef __CUDACC__
/* The CPU twin: hashes GP_HASH_CHUNK_BYTES bytes at @chunk (any alignment). */
void gp_chunk_hash(const void *chunk, struct gp_hash_key key, struct gp_chunk_sum *ret_sum);
#endif

#endif
