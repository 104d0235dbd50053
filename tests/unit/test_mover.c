/* SPDX-License-Identifier: Apache-2.0 */
/* gpupres-mover, started as a program, against a daemon and a shim that are played here. */
#include "base/time.h"
#include "tests/unit/check.h"
#include "tests/unit/mover_fixture.h"

#include <errno.h>
#include <fcntl.h>

/* 4 chunks go to the arena, the other 13 that are not zero to disk. */
static void test_save_when_arena_is_small_then_all_bytes_come_back(void)
{
	struct gp_wire_meminfo before, after;
	struct gp_wire_msg m;

	start_mover("8M", "64M");
	before = meminfo();
	CHECK_EQ(before.arena_bytes, 8 * MIB);
	CHECK_EQ(before.swap_bytes, 64 * MIB);
	create_all();
	save_all(&m);
	CHECK_EQ(m.save_done.n_extents, N_EXTENTS);
	CHECK_EQ(m.save_done.total_bytes, 48 * MIB);
	CHECK_EQ(m.save_done.zero_bytes, 14 * MIB);
	CHECK_EQ(m.save_done.arena_bytes, 8 * MIB);
	CHECK_EQ(m.save_done.disk_bytes, 26 * MIB);
	CHECK(m.save_done.ns > 0);
	destroy_all();
	after = meminfo();
	CHECK_EQ(after.free_bytes, before.free_bytes); /* the mover has let go, too */
	CHECK_EQ(after.arena_used_bytes, 8 * MIB);
	CHECK_EQ(after.swap_used_bytes, 26 * MIB);
	for (uint32_t i = 0; i < N_EXTENTS; i++)
		create(&extents[i]);
	load_all(&m);
	CHECK_EQ(m.header.type, GP_WIRE_LOAD_DONE);
	CHECK_EQ(m.load_done.total_bytes, 48 * MIB);
	CHECK_EQ(m.load_done.disk_bytes, 26 * MIB);
	for (uint32_t i = 0; i < N_EXTENTS; i++)
		CHECK(intact(&extents[i]));
	drop();
	after = meminfo();
	CHECK_EQ(after.arena_used_bytes, 0);
	CHECK_EQ(after.swap_used_bytes, 0);
	destroy_all();
	stop_mover();
}

static void test_save_when_saved_copy_exists_then_only_changes_are_copied(void)
{
	struct gp_wire_msg m;

	start_mover("40M", "0"); /* room for 17 chunks and 3 more, not for a second copy */
	create_all();
	save_all(&m);
	CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
	fill(&extents[1], 999);
	save_all(&m);
	CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
	CHECK_EQ(m.save_done.arena_bytes, 34 * MIB);
	CHECK_EQ(meminfo().arena_used_bytes, 34 * MIB);
	for (uint32_t i = 0; i < N_EXTENTS; i++)
		memset(chunk_of(&extents[i], 0), 0x5a, extents[i].bytes);
	load_all(&m);
	CHECK_EQ(m.header.type, GP_WIRE_LOAD_DONE);
	for (uint32_t i = 0; i < N_EXTENTS; i++)
		CHECK(intact(&extents[i]));
	destroy_all();
	stop_mover();
}

static void test_save_when_no_room_is_left_then_error_and_nothing_is_lost(void)
{
	struct gp_wire_msg m;

	start_mover("8M", "4M");
	create_all();
	save_all(&m);
	CHECK_EQ(m.header.type, GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -ENOSPC);
	CHECK(strstr(m.error.text, "--swap-max"));
	CHECK(extents[0].saved && extents[1].saved && !extents[4].saved);
	for (uint32_t i = 0; i < N_EXTENTS; i++)
		CHECK(intact(&extents[i]));
	memset(chunk_of(&extents[1], 0), 0x5a, extents[1].bytes);
	request(GP_WIRE_LOAD);
	send_extents(0, 2, true);
	expect(&m, GP_WIRE_LOAD_DONE);
	CHECK(intact(&extents[0]) && intact(&extents[1]));
	drop();
	CHECK_EQ(meminfo().arena_used_bytes + meminfo().swap_used_bytes, 0);
	destroy_all();
	stop_mover();
}

static void test_move_when_extents_are_many_then_all_bytes_come_back(void)
{
	struct gp_wire_meminfo before;
	struct gp_wire_msg m;

	start_mover("20M", "64M");
	before = meminfo();
	for (uint32_t i = N_EXTENTS; i < N_ALL; i++) {
		extents[i].bytes = GP_CHUNK_BYTES;
		extents[i].saved = false;
		create(&extents[i]);
		fill(&extents[i], 500 + i);
	}
	request(GP_WIRE_SAVE);
	send_extents(N_EXTENTS, 30, false);
	send_extents(N_EXTENTS + 30, N_SMALL - 30, true);
	collect_saved(&m);
	CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
	CHECK_EQ(m.save_done.n_extents, N_SMALL);
	CHECK_EQ(m.save_done.arena_bytes, 20 * MIB);
	for (uint32_t i = N_EXTENTS; i < N_ALL; i++) {
		CHECK(extents[i].saved);
		destroy(&extents[i]);
	}
	CHECK_EQ(meminfo().free_bytes, before.free_bytes);
	for (uint32_t i = N_EXTENTS; i < N_ALL; i++)
		create(&extents[i]);
	request(GP_WIRE_LOAD);
	send_extents(N_EXTENTS + 17, N_SMALL - 17, false); /* in another order */
	send_extents(N_EXTENTS, 17, true);
	expect(&m, GP_WIRE_LOAD_DONE);
	CHECK_EQ(m.load_done.n_extents, N_SMALL);
	for (uint32_t i = N_EXTENTS; i < N_ALL; i++) {
		CHECK(intact(&extents[i]));
		destroy(&extents[i]);
	}
	stop_mover();
}

/* Spoils a byte of the second chunk of the mover's nameless swap file, or cuts the file there. */
static void spoil_swapfile(bool cut)
{
	char path[600], target[512];
	bool found = false;
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", mover.pid);
	dir = opendir(path);
	CHECK(dir);
	while ((entry = readdir(dir))) {
		ssize_t n;
		int fd;

		snprintf(path, sizeof(path), "/proc/%d/fd/%.32s", mover.pid, entry->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = 0;
		if (strncmp(target, folder, strlen(folder)) || !strstr(target, "(deleted)"))
			continue;
		fd = open(path, O_WRONLY | O_CLOEXEC);
		CHECK(fd >= 0);
		if (cut)
			CHECK_EQ(ftruncate(fd, 2 * MIB), 0);
		else
			CHECK_EQ(pwrite(fd, "rot", 3, 2 * MIB + 4096), 3);
		CHECK_EQ(fsync(fd), 0); /* the mover reads with O_DIRECT */
		close(fd);
		found = true;
	}
	closedir(dir);
	CHECK(found);
}

static void test_load_when_disk_rots_then_error_names_extent_and_chunk(void)
{
	struct gp_wire_msg m;

	start_mover("0", "64M");
	create_all();
	save_all(&m);
	CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
	CHECK_EQ(m.save_done.disk_bytes, 34 * MIB);
	spoil_swapfile(false);
	load_all(&m);
	CHECK_EQ(m.header.type, GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -EBADMSG);
	CHECK(strstr(m.error.text, "extent 1 chunk 0")); /* the second chunk on disk */
	CHECK_EQ(meminfo().swap_used_bytes, 34 * MIB);	 /* kept until DROP */
	destroy_all();
	stop_mover();
}

static void test_load_when_disk_fails_then_error_names_the_folder(void)
{
	struct gp_wire_msg m;

	start_mover("4M", "64M");
	create_all();
	save_all(&m);
	CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
	spoil_swapfile(true);
	load_all(&m);
	CHECK_EQ(m.header.type, GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -EIO);
	CHECK(strstr(m.error.text, folder));
	CHECK_EQ(meminfo().arena_used_bytes, 4 * MIB);
	drop();
	CHECK_EQ(meminfo().arena_used_bytes + meminfo().swap_used_bytes, 0);
	destroy_all();
	stop_mover();
}

/* The shim goes on after the move has failed: it is answered, and the next move
 * works.
 */
static void test_save_when_it_failed_early_then_the_rest_is_let_go(void)
{
	struct gp_wire_msg m;

	start_mover("2M", "0");
	create_all();
	request(GP_WIRE_SAVE);
	send_extents(0, 2, false);
	collect_saved(&m);
	CHECK_EQ(m.header.type, GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -ENOSPC);
	send_extents(2, 1, false);
	send_extents(3, 2, true);
	drop();
	request(GP_WIRE_SAVE);
	send_extents(0, 1, true);
	collect_saved(&m);
	CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
	CHECK_EQ(m.save_done.n_extents, 1);
	destroy_all();
	stop_mover();
}

/* The shim is asked to recreate while it still exports: what it sends for that is not discarded. */
static void test_save_when_it_failed_early_then_the_load_gets_its_extents(void)
{
	struct gp_wire_msg m;

	start_mover("2M", "0");
	create_all();
	request(GP_WIRE_SAVE);
	send_extents(0, 2, false);
	collect_saved(&m);
	CHECK_EQ(m.header.type, GP_WIRE_ERROR);
	CHECK(extents[0].saved);
	memset(chunk_of(&extents[0], 0), 0x5a, extents[0].bytes);
	send_extents(2, 1, false);
	mover.epoch++;
	post_extents(0, 1, true);
	request(GP_WIRE_LOAD);
	expect_ack(1);
	expect(&m, GP_WIRE_LOAD_DONE);
	CHECK(intact(&extents[0]));
	destroy_all();
	stop_mover();
}

static unsigned count_fds(void)
{
	char path[64];
	unsigned n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", mover.pid);
	dir = opendir(path);
	CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* What is wrong with a batch of one extent of 4 chunks. */
enum garbage {
	GARBAGE_TOO_LARGE, /* more than the memory behind the descriptor */
	GARBAGE_HUGE,	   /* more than the device */
	GARBAGE_ODD,
	GARBAGE_ZERO,
	GARBAGE_ID,	   /* does not fit into 32 bits */
	GARBAGE_NO_MEMORY, /* the descriptor is of something else */
	GARBAGE_NO_FD,
	GARBAGE_EMPTY,
	GARBAGE_MAX_,
};

static void send_garbage(enum garbage what)
{
	struct gp_wire_extent e = { 1, extents[1].bytes, extents[1].at };
	struct gp_wire_msg m;
	int fd;

	init_request(&m, GP_WIRE_EXTENTS);
	m.extents.n = what != GARBAGE_EMPTY;
	m.extents.last = what != GARBAGE_EMPTY;
	if (what == GARBAGE_NO_MEMORY)
		fd = open(folder, O_RDONLY | O_CLOEXEC);
	else
		CHECK_EQ(dev.export_handle(&fd, extents[1].handle,
					   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
			 CUDA_SUCCESS);
	e.bytes += what == GARBAGE_TOO_LARGE ? GP_CHUNK_BYTES : 0;
	e.bytes += what == GARBAGE_ODD ? 4096 : 0;
	e.bytes = what == GARBAGE_ZERO ? 0 : what == GARBAGE_HUGE ? 1ull << 62 : e.bytes;
	e.id += what == GARBAGE_ID ? 1ull << 32 : 0;
	m.extents.entries[0] = e;
	CHECK_EQ(gp_wire_send(mover.link, &m, &fd, what < GARBAGE_NO_FD, NULL), 0);
	close(fd);
	expect_ack(m.extents.n);
}

static void test_save_when_shim_sends_garbage_then_refused_and_nothing_kept(void)
{
	struct gp_wire_meminfo before;
	struct gp_wire_msg m;
	unsigned n_fds;

	start_mover("64M", "0");
	before = meminfo();
	create_all();
	n_fds = count_fds();
	for (int i = 0; i < GARBAGE_MAX_; i++) {
		request(GP_WIRE_SAVE);
		send_garbage((enum garbage)i);
		collect_saved(&m);
		CHECK_EQ(m.header.type, GP_WIRE_ERROR);
		CHECK_EQ(m.error.code,
			 i == GARBAGE_TOO_LARGE || i == GARBAGE_NO_MEMORY ? -EIO : -EBADMSG);
		mover.epoch++;
	}
	save_all(&m);
	CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
	CHECK_EQ(count_fds(), n_fds);
	destroy_all();
	CHECK_EQ(meminfo().free_bytes, before.free_bytes);
	stop_mover();
}

static void test_move_when_repeated_then_no_descriptor_and_no_memory_is_lost(void)
{
	struct gp_wire_meminfo before;
	struct gp_wire_msg m;
	unsigned n_fds = 0;

	start_mover("4M", "8M"); /* extents 0 and 3: 2 chunks that are not zero */
	before = meminfo();
	create_all();
	for (int i = 0; i < N_REPEATS; i++) {
		fill(&extents[0], (uint32_t)i);
		request(GP_WIRE_SAVE);
		send_extents(0, 1, false);
		send_extents(3, 1, true);
		collect_saved(&m);
		CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
		memset(chunk_of(&extents[0], 0), 0x5a, extents[0].bytes);
		request(GP_WIRE_LOAD);
		send_extents(0, 1, true);
		expect(&m, GP_WIRE_LOAD_DONE);
		CHECK(intact(&extents[0]));
		if (i % 3 == 0)
			drop();
		n_fds = n_fds ? n_fds : count_fds();
	}
	CHECK_EQ(count_fds(), n_fds);
	drop();
	CHECK_EQ(meminfo().arena_used_bytes + meminfo().swap_used_bytes, 0);
	destroy_all();
	CHECK_EQ(meminfo().free_bytes, before.free_bytes);
	stop_mover();
}

static void test_save_when_an_extent_comes_twice_then_refused(void)
{
	struct gp_wire_msg m;
	int fds[2];

	start_mover("64M", "0");
	create_all();
	request(GP_WIRE_SAVE);
	init_request(&m, GP_WIRE_EXTENTS);
	m.extents.n = 2;
	m.extents.last = 1;
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(dev.export_handle(&fds[i], extents[1].handle,
					   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
			 CUDA_SUCCESS);
		m.extents.entries[i] = (struct gp_wire_extent){ 1, extents[1].bytes, 0 };
	}
	CHECK_EQ(gp_wire_send(mover.link, &m, fds, 2, NULL), 0);
	close(fds[0]);
	close(fds[1]);
	receive(mover.link, &m);
	collect_saved(&m);
	CHECK_EQ(m.header.type, GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -EBADMSG);
	drop();
	CHECK_EQ(meminfo().arena_used_bytes, 0);
	destroy_all();
	stop_mover();
}

static void test_move_when_process_dies_then_error_and_everything_let_go(void)
{
	struct gp_wire_meminfo before;
	struct gp_wire_msg m;

	start_mover("64M", "0");
	before = meminfo();
	create_all();
	request(GP_WIRE_SAVE);
	send_extents(0, 2, false);
	close(mover.link);
	collect_saved(&m);
	CHECK_EQ(m.header.type, GP_WIRE_ERROR);
	destroy_all();
	CHECK_EQ(meminfo().free_bytes, before.free_bytes);
	request(GP_WIRE_UNLINK);
	expect(&m, GP_WIRE_OK);
	CHECK_EQ(meminfo().arena_used_bytes, 0);
	request(GP_WIRE_SAVE);
	expect(&m, GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -ESRCH);
	stop_mover();
}

static void test_unlink_when_move_waits_then_move_ends_at_once(void)
{
	uint64_t start = gp_now_ns();
	struct gp_wire_msg m;

	start_mover("64M", "0");
	request(GP_WIRE_SAVE);
	request(GP_WIRE_UNLINK);
	expect(&m, GP_WIRE_ERROR);
	expect(&m, GP_WIRE_OK);
	CHECK(gp_now_ns() - start < 9 * GP_NS_PER_SEC); /* not by the link's timeout */
	stop_mover();
}

static void test_save_when_shim_cannot_export_then_its_error(void)
{
	struct gp_wire_msg m;

	start_mover("64M", "0");
	request(GP_WIRE_SAVE);
	init_request(&m, GP_WIRE_EXTENTS);
	m.extents.last = 1;
	m.extents.error = -ENODEV;
	send_msg(mover.link, &m);
	receive(mover.link, &m);
	expect(&m, GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -ENODEV);
	stop_mover();
}

/* What an earlier, failed preemption left in the link is not taken for the next one's. */
static void test_save_when_link_holds_stale_extents_then_skipped(void)
{
	struct gp_wire_msg m;

	start_mover("64M", "0");
	create_all();
	init_request(&m, GP_WIRE_EXTENTS);
	m.extents.error = -EIO;
	m.extents.last = 1;
	send_msg(mover.link, &m);
	mover.epoch = 2;
	request(GP_WIRE_SAVE);
	receive(mover.link, &m);
	CHECK_EQ(m.header.type, GP_WIRE_EXTENTS_ACK);
	send_extents(0, N_EXTENTS, true);
	collect_saved(&m);
	CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
	CHECK_EQ(m.save_done.n_extents, N_EXTENTS);
	destroy_all();
	stop_mover();
}

/* Freezing is answered while a move waits for its shim, and stops this process's copies. */
static void test_freeze_when_move_is_under_way_then_answered_and_effective(void)
{
	size_t n_channels;
	struct gp_wire_msg m;
	CUstream stream;
	CUevent event;

	start_mover("64M", "0");
	create_all();
	n_channels = send_channels(6, true);
	CHECK_EQ(dev.driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	CHECK_EQ(dev.driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
	request(GP_WIRE_SAVE);
	send_switch(GP_WIRE_FREEZE);
	expect(&m, GP_WIRE_FROZEN);
	CHECK_EQ(m.frozen.n_channels, n_channels);
	CHECK(m.frozen.ns > 0);
	CHECK_EQ(dev.driver.cuMemsetD8Async(extents[0].at, 0xff, GP_CHUNK_BYTES, stream),
		 CUDA_SUCCESS);
	CHECK_EQ(dev.driver.cuEventRecord(event, stream), CUDA_SUCCESS);
	send_extents(0, N_EXTENTS, true);
	collect_saved(&m);
	CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
	CHECK_EQ(dev.driver.cuEventQuery(event), CUDA_ERROR_NOT_READY);
	CHECK(intact(&extents[0]));
	send_switch(GP_WIRE_THAW);
	expect(&m, GP_WIRE_THAWED);
	CHECK_EQ(dev.driver.cuStreamSynchronize(stream), CUDA_SUCCESS);
	CHECK(!intact(&extents[0]));
	send_switch(GP_WIRE_THAW); /* may be repeated */
	expect(&m, GP_WIRE_THAWED);
	CHECK_EQ(m.thawed.n_channels, n_channels);
	dev.driver.cuEventDestroy(event);
	dev.driver.cuStreamDestroy(stream);
	destroy_all();
	stop_mover();
}

/* Another mover may have frozen the process: an answer without effect would leave it so for good.
 */
static void test_thaw_when_table_is_missing_then_refused_until_it_comes(void)
{
	struct gp_wire_msg m;

	start_mover("64M", "0");
	send_switch(GP_WIRE_THAW);
	expect(&m, GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -EAGAIN);
	send_channels(6, true);
	send_switch(GP_WIRE_THAW);
	expect(&m, GP_WIRE_THAWED);
	CHECK(m.thawed.n_channels > 0);
	stop_mover();
}

static void test_freeze_when_table_is_missing_or_incomplete_then_refused(void)
{
	struct gp_wire_msg m;

	start_mover("64M", "0");
	send_switch(GP_WIRE_FREEZE);
	expect(&m, GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -ENOTSUP);
	send_channels(64, false);
	send_switch(GP_WIRE_FREEZE);
	expect(&m, GP_WIRE_ERROR);
	CHECK_EQ(m.error.code, -ENOTSUP);
	send_channels(64, true);
	send_switch(GP_WIRE_FREEZE);
	expect(&m, GP_WIRE_FROZEN);
	send_switch(GP_WIRE_THAW);
	expect(&m, GP_WIRE_THAWED);
	stop_mover();
}

/* The device refuses every second time: the mover's own trial passes, the first freeze does not. */
static void test_freeze_when_driver_refuses_once_then_retried(void)
{
	struct gp_wire_msg m;

	setenv("GPUPRES_SOFT_FREEZE_FAIL", "2", 1);
	start_mover("64M", "0");
	unsetenv("GPUPRES_SOFT_FREEZE_FAIL");
	send_channels(64, true);
	send_switch(GP_WIRE_FREEZE);
	expect(&m, GP_WIRE_FROZEN);
	send_switch(GP_WIRE_THAW);
	expect(&m, GP_WIRE_THAWED);
	stop_mover();
}

static void test_mover_when_terminated_then_exits_0(void)
{
	start_mover("8M", "0");
	request(GP_WIRE_SAVE); /* a move that waits must not hold it up */
	CHECK_EQ(kill(mover.pid, SIGTERM), 0);
	CHECK_EQ(wait_exit(mover.pid), 0);
	close_ends();
}

static void test_mover_when_swap_folder_is_missing_then_exits_1(void)
{
	CHECK_EQ(wait_exit(spawn_mover("/nonexistent.sock", "8M", "/nonexistent/swap", "64M")), 1);
	CHECK_EQ(wait_exit(spawn_mover("/nonexistent.sock", "8M", folder, "64M")), 1);
}

int main(void)
{
	begin();
	test_save_when_arena_is_small_then_all_bytes_come_back();
	test_save_when_saved_copy_exists_then_only_changes_are_copied();
	test_move_when_extents_are_many_then_all_bytes_come_back();
	test_save_when_no_room_is_left_then_error_and_nothing_is_lost();
	test_load_when_disk_rots_then_error_names_extent_and_chunk();
	test_load_when_disk_fails_then_error_names_the_folder();
	test_save_when_it_failed_early_then_the_rest_is_let_go();
	test_save_when_it_failed_early_then_the_load_gets_its_extents();
	test_save_when_an_extent_comes_twice_then_refused();
	test_save_when_shim_sends_garbage_then_refused_and_nothing_kept();
	test_move_when_repeated_then_no_descriptor_and_no_memory_is_lost();
	test_move_when_process_dies_then_error_and_everything_let_go();
	test_unlink_when_move_waits_then_move_ends_at_once();
	test_save_when_shim_cannot_export_then_its_error();
	test_save_when_link_holds_stale_extents_then_skipped();
	test_freeze_when_move_is_under_way_then_answered_and_effective();
	test_freeze_when_table_is_missing_or_incomplete_then_refused();
	test_thaw_when_table_is_missing_then_refused_until_it_comes();
	test_freeze_when_driver_refuses_once_then_retried();
	test_mover_when_terminated_then_exits_0();
	test_mover_when_swap_folder_is_missing_then_exits_1();
	end();
	return 0;
}
