/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mover outlives the daemon, and the saved bytes outlive the mover: gpupres-mover, started as a
 * program, against one daemon after the other, all played here.
 */
#include "base/time.h"
#include "tests/unit/check.h"
#include "tests/unit/mover_fixture.h"

#include <errno.h>
#include <fcntl.h>

/* --- daemons and movers that come and go --- */

static void daemon_goes(void)
{
	gp_close_fd(&mover.sock);
}

static void daemon_comes(struct gp_wire_ledger *ret_ledger)
{
	char path[512];
	int listener = listen_at(path, sizeof(path));

	accept_mover(listener);
	close(listener);
	unlink(path);
	welcome_mover(ret_ledger);
}

static void kill_mover(void)
{
	CHECK_EQ(kill(mover.pid, SIGKILL), 0);
	CHECK_EQ(waitpid(mover.pid, NULL, 0), mover.pid);
	gp_close_fd(&mover.sock);
	gp_close_fd(&mover.link);
}

static void start_successor(const char *arena, const char *swap_max,
			    struct gp_wire_ledger *ret_ledger)
{
	how.inherits = true;
	launch_mover(arena, swap_max, ret_ledger);
	how.inherits = false;
	CHECK_EQ(ret_ledger->linked + ret_ledger->known, 0);
	send_link();
}

static void recreate_all(void)
{
	for (uint32_t i = 0; i < N_EXTENTS; i++)
		create(&extents[i]);
}

static void check_load(void)
{
	struct gp_wire_msg m;

	for (uint32_t i = 0; i < N_EXTENTS; i++)
		memset(chunk_of(&extents[i], 0), 0x5a, extents[i].bytes);
	load_all(&m);
	CHECK_EQ(m.header.type, GP_WIRE_LOAD_DONE);
	CHECK_EQ(m.load_done.n_extents, N_EXTENTS);
	for (uint32_t i = 0; i < N_EXTENTS; i++)
		CHECK(intact(&extents[i]));
}

/* The extents that the mover said were saved, and those only, have to be there. */
static void load_saved(void)
{
	uint32_t n = 0;
	struct gp_wire_msg m;

	request(GP_WIRE_LOAD);
	for (uint32_t i = 0; i < N_ALL; i++) {
		if (!extents[i].saved)
			continue;
		memset(chunk_of(&extents[i], 0), 0x5a, extents[i].bytes);
		send_extents(i, 1, false);
		n++;
	}
	init_request(&m, GP_WIRE_EXTENTS);
	m.extents.last = 1;
	send_msg(mover.link, &m);
	expect_ack(0);
	expect(&m, GP_WIRE_LOAD_DONE);
	CHECK_EQ(m.load_done.n_extents, n);
	for (uint32_t i = 0; i < N_ALL; i++)
		CHECK(!extents[i].saved || intact(&extents[i]));
}

static void read_saved(unsigned n_messages)
{
	struct gp_wire_msg m;

	while (n_messages--) {
		receive(mover.sock, &m);
		if (m.header.type != GP_WIRE_SAVED)
			return;
		for (uint32_t i = 0; i < m.saved.n; i++)
			extents[m.saved.ids[i]].saved = true;
	}
}

/* --- the daemon goes --- */

static void test_daemon_when_it_comes_back_then_it_hears_what_is_saved_and_can_load(void)
{
	struct gp_wire_ledger ledger;
	struct gp_wire_msg m;

	start_mover("8M", "64M");
	create_all();
	send_channels(64, true);
	save_all(&m);
	CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
	destroy_all();
	daemon_goes();
	recreate_all();
	daemon_comes(&ledger);
	CHECK_EQ(ledger.n_extents, N_EXTENTS);
	CHECK_EQ(ledger.bytes, 48 * MIB);
	CHECK_EQ(ledger.linked, 1);
	CHECK_EQ(ledger.known, 1);
	check_load();
	daemon_goes(); /* before it could have the copy dropped: the next one loads again */
	daemon_comes(&ledger);
	CHECK_EQ(ledger.n_extents, N_EXTENTS);
	check_load();
	check_load();
	drop();
	daemon_goes();
	daemon_comes(&ledger);
	CHECK_EQ(ledger.n_extents, 0);
	CHECK_EQ(ledger.linked, 1);
	CHECK_EQ(meminfo().arena_used_bytes + meminfo().swap_used_bytes, 0);
	destroy_all();
	stop_mover();
}

/*
 * What was begun is finished, and the shim gets rid of the rest. The next daemon hears of what is
 * saved, and no answer meant for the first.
 */
static void test_daemon_when_it_goes_during_a_save_then_what_was_begun_is_kept(void)
{
	struct gp_wire_ledger ledger;
	struct gp_wire_msg m;

	start_mover("64M", "0");
	create_all();
	for (uint32_t i = 0; i < N_EXTENTS; i++)
		extents[i].saved = false;
	request(GP_WIRE_SAVE);
	send_extents(0, 2, false);
	read_saved(1);
	daemon_goes();
	send_extents(2, 3, true);
	mover.epoch++;
	daemon_comes(&ledger);
	CHECK(ledger.n_extents >= 1 && ledger.n_extents <= N_EXTENTS);
	request(GP_WIRE_MEMINFO);
	expect(&m, GP_WIRE_MEMINFO);
	load_saved();
	save_all(&m);
	CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
	check_load();
	destroy_all();
	stop_mover();
}

/* The shim was never asked to export, and the worker must not wait for it as long as it may. */
static void test_daemon_when_it_goes_and_a_save_waits_then_that_is_given_up(void)
{
	struct gp_wire_ledger ledger;
	uint64_t start;
	struct gp_wire_msg m;

	start_mover("64M", "0");
	create_all();
	request(GP_WIRE_SAVE);
	request(GP_WIRE_LOAD);
	request(GP_WIRE_SAVE);
	meminfo();
	start = gp_now_ns();
	daemon_goes();
	daemon_comes(&ledger);
	CHECK(gp_now_ns() - start < 9 * GP_NS_PER_SEC); /* not by the link's timeout */
	CHECK_EQ(ledger.n_extents, 0);
	CHECK_EQ(ledger.linked, 1);
	save_all(&m);
	CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
	destroy_all();
	stop_mover();
}

/* Its process thaws itself when it loses its daemon, and must not be frozen after that. */
static void test_daemon_when_it_goes_and_a_freeze_waits_then_that_is_not_carried_out(void)
{
	struct gp_wire_ledger ledger;
	CUstream stream;
	int status;

	start_mover("64M", "0");
	create_all();
	send_channels(64, true);
	CHECK_EQ(dev.driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	meminfo();
	CHECK_EQ(kill(mover.pid, SIGSTOP), 0);
	CHECK_EQ(waitpid(mover.pid, &status, WUNTRACED), mover.pid);
	send_switch(GP_WIRE_FREEZE);
	daemon_goes();
	CHECK_EQ(kill(mover.pid, SIGCONT), 0);
	daemon_comes(&ledger);
	CHECK_EQ(dev.driver.cuMemsetD8Async(extents[0].at, 0xff, GP_CHUNK_BYTES, stream),
		 CUDA_SUCCESS);
	CHECK_EQ(dev.driver.cuStreamSynchronize(stream), CUDA_SUCCESS);
	dev.driver.cuStreamDestroy(stream);
	destroy_all();
	stop_mover();
}

/* More answers than the mover keeps for a daemon that does not read. */
static void test_daemon_when_it_goes_without_reading_then_the_worker_does_not_hang(void)
{
	struct gp_wire_ledger ledger;

	start_mover("64M", "0");
	create_all();
	for (int i = 0; i < 300; i++) {
		struct gp_wire_msg m;

		init_request(&m, i % 2 ? GP_WIRE_DROP : GP_WIRE_MEMINFO);
		if (gp_wire_send(mover.sock, &m, NULL, 0, NULL) < 0)
			break;
	}
	daemon_goes();
	daemon_comes(&ledger);
	CHECK_EQ(ledger.linked, 1);
	meminfo();
	destroy_all();
	stop_mover();
}

static void test_daemon_when_it_refuses_at_first_then_the_mover_tries_again(void)
{
	struct gp_wire_ledger ledger;
	struct gp_wire_msg m;
	char path[512];
	int listener;

	start_mover("64M", "0");
	create_all();
	save_all(&m);
	daemon_goes();
	listener = listen_at(path, sizeof(path));
	accept_mover(listener);
	gp_wire_init(&m, GP_WIRE_ERROR);
	m.error.code = -EPERM;
	send_msg(mover.sock, &m);
	gp_close_fd(&mover.sock);
	accept_mover(listener);
	gp_close_fd(&mover.sock); /* without a word */
	accept_mover(listener);
	init_request(&m, GP_WIRE_MEMINFO); /* no greeting */
	send_msg(mover.sock, &m);
	gp_close_fd(&mover.sock);
	accept_mover(listener);
	close(listener);
	unlink(path);
	welcome_mover(&ledger);
	CHECK_EQ(ledger.n_extents, N_EXTENTS);
	check_load();
	destroy_all();
	stop_mover();
}

static void test_process_when_it_ends_without_a_daemon_then_its_bytes_are_dropped(void)
{
	struct gp_wire_ledger ledger;
	struct gp_wire_msg m;

	start_mover("64M", "0");
	create_all();
	save_all(&m);
	CHECK_EQ(meminfo().arena_used_bytes, 34 * MIB);
	daemon_goes();
	gp_close_fd(&mover.link);
	daemon_comes(&ledger);
	CHECK_EQ(ledger.n_extents + ledger.linked, 0);
	CHECK_EQ(meminfo().arena_used_bytes, 0);
	destroy_all();
	stop_mover();
}

/* A process is known by its pid, where the daemon knows it: a link may end for other reasons. */
static void test_process_when_only_its_link_ends_then_its_bytes_are_kept(void)
{
	struct gp_wire_ledger ledger;
	struct gp_wire_msg m;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		pause();
		_exit(0);
	}
	how.orphan_grace = "0";
	start_mover("64M", "0");
	gp_close_fd(&mover.link);
	linked_pid = child;
	send_link();
	linked_pid = 0;
	create_all();
	save_all(&m);
	gp_close_fd(&mover.link);
	daemon_goes();
	daemon_comes(&ledger);
	CHECK_EQ(ledger.n_extents, N_EXTENTS);
	CHECK_EQ(ledger.linked, 0);
	send_link();
	check_load();
	gp_close_fd(&mover.link);
	linked_pid = child;
	send_link();
	linked_pid = 0;
	CHECK_EQ(meminfo().arena_used_bytes, 34 * MIB);
	daemon_goes();
	CHECK_EQ(kill(child, SIGKILL), 0);
	CHECK_EQ(waitpid(child, NULL, 0), child);
	CHECK_EQ(wait_exit(mover.pid), 0);
	how.orphan_grace = NULL;
	destroy_all();
	close_ends();
}

/* The newest link is the one, whether or not the old one is still open. */
static void test_link_when_another_comes_then_it_replaces_the_first(void)
{
	struct gp_wire_msg m;
	int first;

	start_mover("64M", "0");
	create_all();
	save_all(&m);
	first = mover.link;
	send_link();
	check_load();
	close(first);
	check_load();
	gp_close_fd(&mover.link);
	send_link();
	check_load();
	destroy_all();
	stop_mover();
}

static void test_orphan_when_nothing_is_saved_then_it_ends(void)
{
	struct gp_wire_msg m;

	how.orphan_grace = "0";
	start_mover("64M", "0");
	daemon_goes();
	CHECK_EQ(wait_exit(mover.pid), 0);
	close_ends();
	how.orphan_grace = "1"; /* with a process that was saved once */
	start_mover("64M", "0");
	create_all();
	save_all(&m);
	drop();
	daemon_goes();
	CHECK_EQ(wait_exit(mover.pid), 0);
	how.orphan_grace = NULL;
	destroy_all();
	close_ends();
}

static void test_orphan_when_bytes_are_saved_then_it_waits_until_their_process_ends(void)
{
	struct gp_wire_ledger ledger;
	struct gp_wire_msg m;

	how.orphan_grace = "0";
	start_mover("64M", "0");
	create_all();
	save_all(&m);
	daemon_goes();
	daemon_comes(&ledger); /* so it is there */
	CHECK_EQ(ledger.n_extents, N_EXTENTS);
	daemon_goes();
	gp_close_fd(&mover.link);
	CHECK_EQ(wait_exit(mover.pid), 0);
	how.orphan_grace = NULL;
	destroy_all();
	close_ends();
}

static void test_orphan_when_terminated_then_it_ends_and_the_bytes_stay(void)
{
	struct gp_wire_ledger ledger;
	struct gp_wire_msg m;

	start_mover("8M", "64M");
	create_all();
	save_all(&m);
	daemon_goes();
	CHECK_EQ(kill(mover.pid, SIGTERM), 0);
	CHECK_EQ(wait_exit(mover.pid), 0);
	gp_close_fd(&mover.link);
	start_successor("8M", "64M", &ledger);
	CHECK_EQ(ledger.n_extents, N_EXTENTS);
	check_load();
	destroy_all();
	stop_mover();
}

/* --- the mover goes --- */

/* 4 chunks lie in the arena, 13 on disk; the successor is told other sizes, and keeps the old. */
static void test_successor_when_given_the_files_then_it_loads_them(void)
{
	struct gp_wire_ledger ledger;
	struct gp_wire_meminfo info;
	struct gp_wire_msg m;

	start_mover("8M", "64M");
	create_all();
	save_all(&m);
	CHECK_EQ(m.save_done.disk_bytes, 26 * MIB);
	destroy_all();
	kill_mover();
	start_successor("20M", "6M", &ledger);
	CHECK_EQ(ledger.n_extents, N_EXTENTS);
	CHECK_EQ(ledger.bytes, 48 * MIB);
	info = meminfo();
	CHECK_EQ(info.arena_bytes, 8 * MIB);
	CHECK_EQ(info.arena_used_bytes, 8 * MIB);
	CHECK_EQ(info.swap_used_bytes, 26 * MIB);
	recreate_all();
	check_load();
	/* What did not change is not copied again, also by a third. */
	kill_mover();
	start_successor("8M", "64M", &ledger);
	fill(&extents[1], 999);
	save_all(&m);
	CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
	check_load();
	drop();
	info = meminfo();
	CHECK_EQ(info.arena_used_bytes + info.swap_used_bytes, 0);
	destroy_all();
	stop_mover();
}

/* The daemon that started it ended at once: nobody else may have the files any more. */
static void test_successor_when_there_is_no_daemon_then_it_waits_for_one(void)
{
	struct gp_wire_ledger ledger;
	struct gp_wire_msg m;
	char path[512];

	start_mover("8M", "64M");
	create_all();
	save_all(&m);
	kill_mover();
	close(listen_at(path, sizeof(path)));
	how.inherits = true;
	mover.pid = spawn_mover(path, "8M", folder, "64M");
	how.inherits = false;
	close_fds();
	daemon_comes(&ledger);
	CHECK_EQ(ledger.n_extents, N_EXTENTS);
	CHECK_EQ(ledger.linked, 0);
	send_link();
	check_load();
	destroy_all();
	stop_mover();
}

static void test_successor_when_all_was_dropped_then_it_starts_empty(void)
{
	struct gp_wire_ledger ledger;
	struct gp_wire_msg m;

	start_mover("8M", "0"); /* no swap file: /dev/null stands for it */
	create_all();
	destroy(&extents[4]);
	request(GP_WIRE_SAVE);
	send_extents(0, 2, true);
	collect_saved(&m);
	CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
	drop();
	kill_mover();
	start_successor("8M", "64M", &ledger);
	CHECK_EQ(ledger.n_extents, 0);
	CHECK_EQ(meminfo().arena_used_bytes, 0);
	CHECK_EQ(meminfo().swap_bytes, 64 * MIB); /* it could make one */
	create(&extents[4]);
	fill(&extents[4], 5);
	save_all(&m);
	CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
	check_load();
	destroy_all();
	stop_mover();
}

static void test_successor_when_files_are_no_inheritance_then_it_makes_its_own(void)
{
	struct gp_wire_ledger ledger;
	struct gp_wire_msg m;

	for (int bad = 0; bad < 3; bad++) {
		start_mover("64M", "64M");
		create_all();
		save_all(&m);
		kill_mover();
		close(mover.fds[bad]);
		mover.fds[bad] = open("/dev/null", O_RDWR | O_CLOEXEC);
		start_successor("64M", "64M", &ledger);
		/* Nothing of it lies on disk: without a swap file all is there. */
		CHECK_EQ(ledger.n_extents, bad == 2 ? N_EXTENTS : 0);
		CHECK_EQ(meminfo().arena_used_bytes, bad == 2 ? 34 * MIB : 0);
		save_all(&m);
		CHECK_EQ(m.header.type, GP_WIRE_SAVE_DONE);
		check_load();
		destroy_all();
		stop_mover();
	}
}

/*
 * A save of what is saved already and has changed in part, killed after a different number of
 * messages each time: what was SAVED is there as it is now, whether or not the rest got that far.
 */
static void test_mover_when_killed_during_a_save_then_what_was_saved_is_there(void)
{
	struct gp_wire_ledger ledger;

	start_mover("40M", "128M");
	create_all();
	for (uint32_t i = N_EXTENTS; i < N_ALL; i++) {
		extents[i].bytes = GP_CHUNK_BYTES;
		create(&extents[i]);
	}
	for (unsigned turn = 0; turn < 8; turn++) {
		for (uint32_t i = 0; i < N_ALL; i++) {
			extents[i].saved = false;
			if (turn == 0 || (i + turn) % 3 == 0)
				fill(&extents[i], 1000 * turn + i);
		}
		request(GP_WIRE_SAVE);
		for (uint32_t i = 0; i < N_ALL; i += 9)
			post_extents(i, 9, i + 9 == N_ALL);
		read_saved(turn);
		kill_mover();
		start_successor("40M", "128M", &ledger);
		mover.epoch = turn + 2;
		load_saved();
	}
	drop();
	CHECK_EQ(meminfo().arena_used_bytes + meminfo().swap_used_bytes, 0);
	for (uint32_t i = 0; i < N_ALL; i++)
		destroy(&extents[i]);
	stop_mover();
}

/* --- the lock --- */

static void test_lock_when_held_then_a_second_mover_ends(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/mover.lock", folder);
	how.lock = path;
	start_mover("8M", "0");
	CHECK_EQ(wait_exit(spawn_mover("/nonexistent.sock", "8M", folder, "0")), 1);
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_EQ(fcntl(fd, F_GETLK, &lock), 0);
	CHECK_EQ(lock.l_type, F_WRLCK);
	CHECK_EQ(lock.l_pid, mover.pid);
	meminfo(); /* the first one does not mind */
	kill_mover();
	close_fds();
	lock.l_type = F_WRLCK;
	CHECK_EQ(fcntl(fd, F_GETLK, &lock), 0);
	CHECK_EQ(lock.l_type, F_UNLCK);
	start_mover("8M", "0");
	stop_mover();
	how.lock = "/nonexistent/mover.lock";
	CHECK_EQ(wait_exit(spawn_mover("/nonexistent.sock", "8M", folder, "0")), 1);
	how.lock = NULL;
	close(fd);
}

int main(void)
{
	begin();
	test_daemon_when_it_comes_back_then_it_hears_what_is_saved_and_can_load();
	test_daemon_when_it_goes_during_a_save_then_what_was_begun_is_kept();
	test_daemon_when_it_goes_and_a_save_waits_then_that_is_given_up();
	test_daemon_when_it_goes_and_a_freeze_waits_then_that_is_not_carried_out();
	test_daemon_when_it_goes_without_reading_then_the_worker_does_not_hang();
	test_daemon_when_it_refuses_at_first_then_the_mover_tries_again();
	test_process_when_it_ends_without_a_daemon_then_its_bytes_are_dropped();
	test_process_when_only_its_link_ends_then_its_bytes_are_kept();
	test_link_when_another_comes_then_it_replaces_the_first();
	test_orphan_when_nothing_is_saved_then_it_ends();
	test_orphan_when_bytes_are_saved_then_it_waits_until_their_process_ends();
	test_orphan_when_terminated_then_it_ends_and_the_bytes_stay();
	test_successor_when_given_the_files_then_it_loads_them();
	test_successor_when_there_is_no_daemon_then_it_waits_for_one();
	test_successor_when_all_was_dropped_then_it_starts_empty();
	test_successor_when_files_are_no_inheritance_then_it_makes_its_own();
	test_mover_when_killed_during_a_save_then_what_was_saved_is_there();
	test_lock_when_held_then_a_second_mover_ends();
	end();
	return 0;
}
