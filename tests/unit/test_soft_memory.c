/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the software device: accounting across processes, sharing, remapping, exhaustion. */
#include "tests/unit/soft_device.h"

#define EXTENT (64 * MIB)

static CUmemGenericAllocationHandle create(uint64_t bytes)
{
	CUmemGenericAllocationHandle handle;

	OK(cuMemCreate(&handle, bytes, &soft_prop, 0));
	return handle;
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, uint64_t bytes, CUdeviceptr hint)
{
	CUdeviceptr va;

	OK(cuMemAddressReserve(&va, bytes, 0, hint, 0));
	OK(cuMemMap(va, bytes, 0, handle, 0));
	OK(cuMemSetAccess(va, bytes, &soft_access, 1));
	return va;
}

static void holder(int sock)
{
	soft_start();
	create(EXTENT);
	soft_say(sock);
	soft_hear(sock);
}

static void test_accounting_when_owner_is_killed_then_memory_is_free(void)
{
	int sock;
	pid_t pid = soft_child(holder, &sock);

	soft_hear(sock);
	soft_start();
	CHECK_EQ(soft_free_bytes(), SOFT_CAPACITY - EXTENT - 2 * SOFT_CTX_BYTES);
	kill(pid, SIGKILL);
	soft_join(pid, SIGKILL);
	CHECK_EQ(soft_free_bytes(), SOFT_CAPACITY - SOFT_CTX_BYTES);
}

static void sender(int sock)
{
	CUmemGenericAllocationHandle handle;
	uint32_t magic = 0x12345678;
	CUdeviceptr va;
	int fd;

	soft_start();
	handle = create(EXTENT);
	va = map(handle, EXTENT, 0);
	OK(cuMemcpyHtoD_v2(va + EXTENT - 4, &magic, 4));
	OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	soft_send_fd(sock, fd);
	soft_words[0] = 1;
	pause();
}

static void test_export_when_fd_in_flight_and_owner_killed_then_alive_until_last_user(void)
{
	CUmemGenericAllocationHandle handle;
	uint32_t magic = 0;
	CUdeviceptr va;
	int sock, fd;
	pid_t pid = soft_child(sender, &sock);

	SOFT_UNTIL(soft_words[0]);
	kill(pid, SIGKILL);
	soft_join(pid, SIGKILL);
	soft_start();
	CHECK_EQ(soft_free_bytes(), SOFT_CAPACITY - EXTENT - SOFT_CTX_BYTES);
	fd = soft_receive_fd(sock);
	OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	va = map(handle, EXTENT, 0);
	OK(cuMemRelease(handle));
	CHECK_EQ(soft_free_bytes(), SOFT_CAPACITY - EXTENT - SOFT_CTX_BYTES);
	OK(cuMemcpyDtoH_v2(&magic, va + EXTENT - 4, 4));
	CHECK_EQ(magic, 0x12345678);
	OK(cuMemUnmap(va, EXTENT));
	CHECK_EQ(soft_free_bytes(), SOFT_CAPACITY - SOFT_CTX_BYTES);
}

static void test_create_when_full_then_out_of_memory_until_released(void)
{
	CUmemGenericAllocationHandle first, second;
	CUdeviceptr p;

	soft_start();
	first = create(SOFT_CAPACITY - SOFT_CTX_BYTES - 2 * MIB);
	CHECK_EQ(p_cuMemCreate(&second, 4 * MIB, &soft_prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_EQ(p_cuMemAlloc_v2(&p, 3 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemCreate(&second, 2 * MIB, &soft_prop, 0));
	CHECK_EQ(soft_free_bytes(), 0);
	CHECK_EQ(p_cuMemAlloc_v2(&p, 16), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemRelease(first));
	OK(cuMemAlloc_v2(&p, 3 * MIB));
	OK(cuMemFree_v2(p));
	OK(cuMemRelease(second));
	CHECK_EQ(soft_free_bytes(), SOFT_CAPACITY - SOFT_CTX_BYTES);
	CHECK_EQ(p_cuMemRelease(second), CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(p_cuMemRelease(0xdeadbeef0ull), CUDA_ERROR_INVALID_VALUE);
}

static void test_remap_when_extent_replaced_then_same_address_other_memory(void)
{
	CUmemAllocationProp host = soft_prop;
	CUmemGenericAllocationHandle old, fresh, retained;
	uint64_t free_before;
	uint32_t value = 7;
	CUdeviceptr va, hint;

	soft_start();
	free_before = soft_free_bytes();
	old = create(EXTENT);
	OK(cuMemAddressReserve(&hint, EXTENT, 0, 0, 0));
	OK(cuMemAddressFree(hint, EXTENT));
	va = map(old, EXTENT, hint);
	CHECK_EQ(va, hint);
	OK(cuMemRelease(old));
	OK(cuMemRetainAllocationHandle(&retained, (void *)(uintptr_t)(va + 100)));
	OK(cuMemRelease(retained));
	OK(cuMemcpyHtoD_v2(va, &value, 4));
	CHECK_EQ(p_cuMemUnmap(va, EXTENT / 2), CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(p_cuMemAddressFree(va, EXTENT), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemUnmap(va, EXTENT));
	CHECK_EQ(soft_free_bytes(), free_before);
	/* Host memory at the same address is not the device's. */
	host.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	OK(cuMemCreate(&fresh, EXTENT, &host, 0));
	OK(cuMemMap(va, EXTENT, 0, fresh, 0));
	OK(cuMemSetAccess(va, EXTENT, &soft_access, 1));
	CHECK_EQ(soft_free_bytes(), free_before);
	OK(cuMemcpyDtoH_v2(&value, va, 4));
	CHECK_EQ(value, 0);
	OK(cuMemUnmap(va, EXTENT));
	OK(cuMemRelease(fresh));
	OK(cuMemAddressFree(va, EXTENT));
}

static void test_small_allocs_when_many_then_share_granules_and_return_them(void)
{
	CUdeviceptr p[1000], base;
	uint64_t free_before;
	size_t bytes;

	soft_start();
	free_before = soft_free_bytes();
	for (int i = 0; i < 1000; i++) {
		OK(cuMemAlloc_v2(&p[i], 1000));
		CHECK_EQ(p[i] % 512, 0);
		OK(cuMemsetD8_v2(p[i], (unsigned char)i, 1000));
	}
	CHECK_EQ(free_before - soft_free_bytes(), 2 * MIB);
	for (int i = 0; i < 1000; i++) {
		unsigned char c[1000];

		OK(cuMemcpyDtoH_v2(c, p[i], 1000));
		CHECK(c[0] == (unsigned char)i && c[999] == (unsigned char)i);
	}
	OK(cuMemGetAddressRange_v2(&base, &bytes, p[5] + 17));
	CHECK_EQ(base, p[5]);
	CHECK_EQ(bytes, 1000);
	for (int i = 0; i < 1000; i++)
		OK(cuMemFree_v2(p[i]));
	CHECK_EQ(soft_free_bytes(), free_before);
	CHECK_EQ(p_cuMemFree_v2(p[5]), CUDA_ERROR_INVALID_VALUE);
}

static void second_size(int sock)
{
	size_t free_bytes, total;

	setenv("GPUPRES_SOFT_MEMORY", "1G", 1);
	soft_start();
	OK(cuMemGetInfo_v2(&free_bytes, &total));
	CHECK_EQ(total, SOFT_CAPACITY);
}

static void test_capacity_when_second_process_differs_then_first_counts(void)
{
	int sock, holder_sock;
	pid_t first = soft_child(holder, &holder_sock), second;

	soft_hear(holder_sock);
	second = soft_child(second_size, &sock);
	soft_join(second, 0);
	soft_say(holder_sock);
	soft_join(first, 0);
}

static void test_fork_when_initialised_then_child_dead_and_holds_nothing(void)
{
	CUmemGenericAllocationHandle handle;
	uint64_t free_before;
	CUdeviceptr va;
	int pair[2];
	pid_t pid;

	soft_start();
	free_before = soft_free_bytes();
	handle = create(EXTENT);
	va = map(handle, EXTENT, 0);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
	pid = fork();
	if (pid == 0) {
		size_t a, b;

		CHECK_EQ(p_cuMemGetInfo_v2(&a, &b), CUDA_ERROR_NOT_INITIALIZED);
		CHECK_EQ(p_cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
		CHECK_EQ(p_cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
		soft_say(pair[1]);
		soft_hear(pair[1]);
		exit(0);
	}
	soft_hear(pair[0]);
	OK(cuMemUnmap(va, EXTENT));
	OK(cuMemRelease(handle));
	CHECK_EQ(soft_free_bytes(), free_before);
	soft_say(pair[0]);
	soft_join(pid, 0);
	/* The child's end took nothing of ours with it. */
	handle = create(EXTENT);
	OK(cuMemRelease(handle));
	OK(cuCtxSynchronize());
}

static void test_copies_when_pitched_then_rows_land(void)
{
	uint32_t in[6] = { 1, 2, 3, 4, 5, 6 }, out[6] = { 0 };
	CUDA_MEMCPY2D up = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = in,
		.srcPitch = 12,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstPitch = 512,
		.WidthInBytes = 12,
		.Height = 2,
	};
	CUDA_MEMCPY2D down = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcPitch = 512,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = out,
		.dstPitch = 12,
		.WidthInBytes = 12,
		.Height = 2,
	};
	CUdeviceptr p;

	soft_start();
	OK(cuMemAlloc_v2(&p, 4096));
	up.dstDevice = p;
	down.srcDevice = p;
	OK(cuMemcpy2D_v2(&up));
	OK(cuMemcpy2D_v2(&down));
	CHECK(memcmp(in, out, sizeof(in)) == 0);
	OK(cuMemsetD2D32_v2(p, 512, 9, 2, 2));
	OK(cuMemcpy2D_v2(&down));
	CHECK(out[0] == 9 && out[1] == 9 && out[2] == 3 && out[3] == 9 && out[5] == 6);
	CHECK_EQ(p_cuMemcpyHtoD_v2(12345, in, 4), CUDA_ERROR_INVALID_VALUE);
}

/* Every kind of change of the shared figures, over and over. soft_words[1 + k] counts the rounds.
 */
static void churn(int slot)
{
	soft_start();
	for (;;) {
		CUmemGenericAllocationHandle handle;
		CUdeviceptr p;
		int fd;

		OK(cuMemCreate(&handle, 4 * MIB, &soft_prop, 0));
		OK(cuMemExportToShareableHandle(&fd, handle,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
		OK(cuMemAlloc_v2(&p, 2 * MIB));
		OK(cuMemRelease(handle));
		OK(cuMemsetD8_v2(p, 1, 2 * MIB));
		OK(cuMemFree_v2(p));
		close(fd);
		soft_free_bytes();
		soft_words[slot]++;
	}
}

static void churn_a(int sock)
{
	churn(1);
}

static void churn_b(int sock)
{
	churn(2);
}

/* Looks at the device from a process of its own, so that this one may go on forking programs. */
static void looker(int sock)
{
	soft_start();
	CHECK_EQ(soft_free_bytes(), SOFT_CAPACITY - SOFT_CTX_BYTES);
}

static void test_accounting_when_processes_are_killed_anywhere_then_stays_exact(void)
{
	for (uint32_t round = 0; round < 20; round++) {
		uint32_t a = soft_words[1], b = soft_words[2];
		int sock_a, sock_b;
		pid_t pid_a = soft_child(churn_a, &sock_a), pid_b = soft_child(churn_b, &sock_b);

		SOFT_UNTIL(soft_words[1] > a + round && soft_words[2] > b + round / 2);
		kill(pid_a, SIGKILL);
		kill(pid_b, SIGKILL);
		soft_join(pid_a, SIGKILL);
		soft_join(pid_b, SIGKILL);
		close(sock_a);
		close(sock_b);
		soft_join(soft_child(looker, &sock_a), 0);
		close(sock_a);
	}
}

int main(void)
{
	void (*const tests[])(void) = {
		test_accounting_when_owner_is_killed_then_memory_is_free,
		test_export_when_fd_in_flight_and_owner_killed_then_alive_until_last_user,
		test_create_when_full_then_out_of_memory_until_released,
		test_remap_when_extent_replaced_then_same_address_other_memory,
		test_small_allocs_when_many_then_share_granules_and_return_them,
		test_capacity_when_second_process_differs_then_first_counts,
		test_fork_when_initialised_then_child_dead_and_holds_nothing,
		test_copies_when_pitched_then_rows_land,
		test_accounting_when_processes_are_killed_anywhere_then_stays_exact,
	};

	return soft_run(tests, sizeof(tests) / sizeof(tests[0]));
}
