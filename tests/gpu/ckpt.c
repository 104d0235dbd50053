/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckpt PID: suspends and resumes a running CUDA program by the driver's own cuCheckpoint calls and
 * prints what each took. What gpupres is measured against.
 */
#include "base/time.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define CKPT_LOCK_TIMEOUT_MS 60000

static double ckpt_ms(uint64_t since_ns)
{
	return (double)(gp_now_ns() - since_ns) / GP_NS_PER_MS;
}

static void ckpt_check(CUresult r, const char *call)
{
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "ckpt: %s failed with %d\n", call, r);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	CUcheckpointLockArgs lock = { .timeoutMs = CKPT_LOCK_TIMEOUT_MS };
	CUcheckpointCheckpointArgs checkpoint = { 0 };
	CUcheckpointRestoreArgs restore = { 0 };
	CUcheckpointUnlockArgs unlock = { 0 };
	double lock_ms, checkpoint_ms, restore_ms;
	uint64_t begin;
	int pid;

	if (argc != 2 || (pid = atoi(argv[1])) <= 0) {
		fprintf(stderr, "usage: ckpt PID\n");
		return 2;
	}
	ckpt_check(cuInit(0), "cuInit");
	begin = gp_now_ns();
	ckpt_check(cuCheckpointProcessLock(pid, &lock), "cuCheckpointProcessLock");
	lock_ms = ckpt_ms(begin);
	begin = gp_now_ns();
	ckpt_check(cuCheckpointProcessCheckpoint(pid, &checkpoint),
		   "cuCheckpointProcessCheckpoint");
	checkpoint_ms = ckpt_ms(begin);
	begin = gp_now_ns();
	ckpt_check(cuCheckpointProcessRestore(pid, &restore), "cuCheckpointProcessRestore");
	ckpt_check(cuCheckpointProcessUnlock(pid, &unlock), "cuCheckpointProcessUnlock");
	restore_ms = ckpt_ms(begin);
	printf("{\"lock_ms\": %.3f, \"checkpoint_ms\": %.3f, \"restore_ms\": %.3f}\n", lock_ms,
	       checkpoint_ms, restore_ms);
	return 0;
}
