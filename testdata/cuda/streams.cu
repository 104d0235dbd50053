/* SPDX-License-Identifier: Apache-2.0 */
/*
 * streams: eight streams (blocking and non-blocking ones) that depend on each other through events,
 * with asynchronous copies both ways, host functions, and the default stream at the end.
 *
 * In each round each stream copies its input in, mixes it with its own state and with what its left
 * neighbour published in the round before, publishes the result, copies it out and calls a host
 * function. Published values are double buffered: a stream writes a buffer only after its right
 * neighbour has read it in the round before. Elements are independent, so the CPU checks a sample.
 */
#include "common.h"

#define N_STREAMS 8
#define BLOCK	  256
#define MIXES	  32

/* What one step does to one element: enough work that kernels take as long as copies. */
static inline __host__ __device__ uint32_t mix(uint32_t own, uint32_t left, uint32_t in, uint32_t r)
{
	uint32_t v = own;

	for (uint32_t i = 0; i < MIXES; i++) {
		v = v * 1664525u + left + r;
		v = ((v << 7) | (v >> 25)) ^ in;
	}
	return v;
}

/* Clears the input, so that a copy that does not happen is noticed. */
__global__ void step(uint32_t *in, const uint32_t *own, const uint32_t *left, uint32_t *out,
		     uint64_t n, uint32_t round)
{
	const uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;

	if (i >= n)
		return;
	out[i] = mix(own[i], left[i], in[i], round);
	in[i] = 0;
}

struct pointers {
	const uint32_t *p[N_STREAMS];
};

__global__ void combine(struct pointers from, uint32_t *out, uint64_t n)
{
	const uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
	uint32_t sum = 0;

	if (i >= n)
		return;
	for (int s = 0; s < N_STREAMS; s++)
		sum = sum * 31 + from.p[s][i];
	out[i] = sum;
}

struct lane {
	cudaStream_t stream;
	cudaEvent_t done;
	uint32_t *host_in, *host_out; /* Pinned. */
	uint32_t *in, *published[2];
	uint64_t n_calls; /* Of the host function; one stream's calls never overlap. */
};

static void CUDART_CB count_call(void *arg)
{
	((struct lane *)arg)->n_calls++;
}

static void lane_init(struct lane *lane, int index, uint64_t n)
{
	const uint64_t n_bytes = n * sizeof(uint32_t);

	CU(cudaStreamCreateWithFlags(&lane->stream,
				     index % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
	CU(cudaEventCreateWithFlags(&lane->done, cudaEventDisableTiming));
	CU(cudaMallocHost(&lane->host_in, n_bytes));
	CU(cudaMallocHost(&lane->host_out, n_bytes));
	CU(cudaMalloc(&lane->in, n_bytes));
	for (int b = 0; b < 2; b++) {
		CU(cudaMalloc(&lane->published[b], n_bytes));
		CU(cudaMemsetAsync(lane->published[b], index + 1, n_bytes, lane->stream));
	}
	for (uint64_t i = 0; i < n; i++)
		lane->host_in[i] = (uint32_t)mix64(i * N_STREAMS + index);
	lane->n_calls = 0;
	CU(cudaEventRecord(lane->done, lane->stream));
}

static void lane_fini(struct lane *lane)
{
	CU(cudaStreamDestroy(lane->stream));
	CU(cudaEventDestroy(lane->done));
	CU(cudaFreeHost(lane->host_in));
	CU(cudaFreeHost(lane->host_out));
	CU(cudaFree(lane->in));
	CU(cudaFree(lane->published[0]));
	CU(cudaFree(lane->published[1]));
}

static void queue_round(struct lane *lanes, uint64_t n, uint32_t round)
{
	const uint64_t n_bytes = n * sizeof(uint32_t);

	/* All waits first: they mean the events of the round before. */
	for (int s = 0; s < N_STREAMS; s++) {
		CU(cudaStreamWaitEvent(lanes[s].stream, lanes[(s + N_STREAMS - 1) % N_STREAMS].done,
				       0));
		CU(cudaStreamWaitEvent(lanes[s].stream, lanes[(s + 1) % N_STREAMS].done, 0));
	}
	for (int s = 0; s < N_STREAMS; s++) {
		struct lane *lane = &lanes[s];
		const uint32_t *left = lanes[(s + N_STREAMS - 1) % N_STREAMS].published[round % 2];
		uint32_t *out = lane->published[(round + 1) % 2];

		CU(cudaMemcpyAsync(lane->in, lane->host_in, n_bytes, cudaMemcpyHostToDevice,
				   lane->stream));
		step<<<(unsigned)((n + BLOCK - 1) / BLOCK), BLOCK, 0, lane->stream>>>(
			lane->in, lane->published[round % 2], left, out, n, round);
		CU(cudaGetLastError());
		CU(cudaEventRecord(lane->done, lane->stream));
		CU(cudaMemcpyAsync(lane->host_out, out, n_bytes, cudaMemcpyDeviceToHost,
				   lane->stream));
		CU(cudaLaunchHostFunc(lane->stream, count_call, lane));
	}
}

static uint64_t check(const struct lane *lanes, const uint32_t *combined, uint64_t n,
		      uint64_t rounds)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < n; i += sample_step(n, (1 << 24) / (rounds * MIXES) + 1)) {
		uint32_t now[N_STREAMS], next[N_STREAMS], sum = 0;

		for (int s = 0; s < N_STREAMS; s++)
			now[s] = (uint32_t)(s + 1) * 0x01010101u;
		for (uint32_t r = 0; r < rounds; r++) {
			for (int s = 0; s < N_STREAMS; s++)
				next[s] = mix(now[s], now[(s + N_STREAMS - 1) % N_STREAMS],
					      lanes[s].host_in[i], r);
			memcpy(now, next, sizeof(now));
		}
		for (int s = 0; s < N_STREAMS; s++) {
			sum = sum * 31 + now[s];
			wrong += lanes[s].host_out[i] != now[s];
		}
		wrong += combined[i] != sum;
	}
	for (int s = 0; s < N_STREAMS; s++)
		wrong += lanes[s].n_calls != rounds;
	return wrong;
}

int main(int argc, char **argv)
{
	uint64_t mb = 48, rounds = 24;
	const struct option_def defs[] = {
		{ "mb", &mb, 1, 1 << 20, "device memory in MiB" },
		{ "rounds", &rounds, 1, 1u << 30, "rounds of copy in, compute, copy out" },
	};
	options_parse(argc, argv, "Runs streams that wait for each other.", defs);

	const uint64_t n = mb * MIB / ((3 * N_STREAMS + 1) * sizeof(uint32_t));
	struct lane lanes[N_STREAMS];
	struct pointers last;
	uint32_t *combined = host_alloc<uint32_t>(n), *dev_combined;

	CU(cudaMalloc(&dev_combined, n * sizeof(uint32_t)));
	for (int s = 0; s < N_STREAMS; s++)
		lane_init(&lanes[s], s, n);
	const double start = now_s();
	for (uint32_t r = 0; r < rounds; r++)
		queue_round(lanes, n, r);
	for (int s = 0; s < N_STREAMS; s++) {
		last.p[s] = lanes[s].published[rounds % 2];
		CU(cudaStreamWaitEvent(0, lanes[s].done, 0));
	}
	combine<<<(unsigned)((n + BLOCK - 1) / BLOCK), BLOCK>>>(last, dev_combined, n);
	CU(cudaGetLastError());
	CU(cudaMemcpy(combined, dev_combined, n * sizeof(uint32_t), cudaMemcpyDeviceToHost));
	for (int s = 0; s < N_STREAMS; s++)
		CU(cudaStreamSynchronize(lanes[s].stream));
	const double seconds = now_s() - start;

	const uint64_t wrong = check(lanes, combined, n, rounds);
	uint64_t hash = fnv64(FNV_INIT, combined, n * sizeof(uint32_t));
	for (int s = 0; s < N_STREAMS; s++) {
		hash = fnv64(hash, lanes[s].host_out, n * sizeof(uint32_t));
		lane_fini(&lanes[s]);
	}
	CU(cudaFree(dev_combined));
	free(combined);
	return report("streams", hash, wrong, seconds);
}
