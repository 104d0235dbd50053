/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/run/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

/* A process may fork between being listed and being signalled; its child shows up next time. */
#define TREE_MAX_PASSES 8

struct tree_node {
	pid_t pid, parent;
};

struct tree {
	struct tree_node *nodes;
	size_t n, room;
};

static bool tree_has(const struct tree *t, pid_t pid)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->nodes[i].pid == pid)
			return true;
	}
	return false;
}

static int tree_add(struct tree *t, pid_t pid, pid_t parent, struct gp_err *err)
{
	if (t->n == t->room) {
		size_t room = t->room ? 2 * t->room : 64;
		struct tree_node *grown = reallocarray(t->nodes, room, sizeof(*grown));

		if (!grown)
			return gp_err_sys(err, -ENOMEM, "cannot list %zu processes", room);
		t->nodes = grown;
		t->room = room;
	}
	t->nodes[t->n++] = (struct tree_node){ pid, parent };
	return 0;
}

/* Adds the children of one thread. A thread that is gone has none. */
static int tree_add_thread(struct tree *t, pid_t pid, const char *tid, struct gp_err *err)
{
	char path[64];
	FILE *file;
	int child, r = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", pid, tid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (r == 0 && fscanf(file, "%d", &child) == 1) {
		if (!tree_has(t, child))
			r = tree_add(t, child, pid, err);
	}
	fclose(file);
	return r;
}

static int tree_add_children(struct tree *t, pid_t pid, struct gp_err *err)
{
	struct dirent *entry;
	char path[64];
	int r = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir && pid == getpid())
		return gp_err_sys(err, -errno, "cannot list own children in %s", path);
	if (!dir)
		return 0;
	while (r == 0 && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			r = tree_add_thread(t, pid, entry->d_name, err);
	}
	closedir(dir);
	return r;
}

/* Parent of @pid as the kernel says now; 0 if there is no such process. */
static pid_t tree_parent(pid_t pid)
{
	char path[64], stat[512];
	const char *paren;
	int parent = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	gp_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);
	if (n <= 0)
		return 0;
	stat[n] = '\0';
	/* "pid (name) state parent": the name may hold parentheses, what follows may not. */
	paren = strrchr(stat, ')');
	if (!paren || sscanf(paren + 1, " %*c %d", &parent) != 1)
		return 0;
	return parent;
}

/*
 * The pid may have been reused since it was read. A pidfd pins whoever has it now, and a process
 * whose parent is the one seen before, or who was handed to us, is ours.
 */
static void tree_signal_one(const struct tree_node *node, int signo, struct gp_tree_result *result)
{
	gp_auto_fd int fd = pidfd_open(node->pid, 0);
	pid_t parent;

	if (fd < 0)
		return;
	parent = tree_parent(node->pid);
	if (parent != node->parent && parent != getpid())
		return;
	if (pidfd_send_signal(fd, signo, NULL, 0) == 0)
		result->n_signalled++;
	else if (errno == EPERM)
		result->n_refused++;
}

/* All descendants, breadth first: the array grows while it is walked. */
static int tree_list(struct tree *t, struct gp_err *err)
{
	int r = tree_add_children(t, getpid(), err);

	for (size_t i = 0; r == 0 && i < t->n; i++)
		r = tree_add_children(t, t->nodes[i].pid, err);
	return r;
}

/* Signals those descendants that are not in @done yet, and adds them. */
static int tree_signal_new(struct tree *done, int signo, struct gp_tree_result *result,
			   struct gp_err *err)
{
	struct tree found = { 0 };
	int r = tree_list(&found, err);

	for (size_t i = 0; r == 0 && i < found.n; i++) {
		if (tree_has(done, found.nodes[i].pid))
			continue;
		tree_signal_one(&found.nodes[i], signo, result);
		r = tree_add(done, found.nodes[i].pid, found.nodes[i].parent, err);
	}
	free(found.nodes);
	return r;
}

int gp_tree_signal(int signo, struct gp_tree_result *ret, struct gp_err *err)
{
	struct tree done = { 0 };
	size_t n_before;
	int r = 0, pass = 0;

	*ret = (struct gp_tree_result){ 0 };
	do {
		n_before = done.n;
		r = tree_signal_new(&done, signo, ret, err);
	} while (r == 0 && done.n != n_before && ++pass < TREE_MAX_PASSES);
	free(done.nodes);
	return r;
}
