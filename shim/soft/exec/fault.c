/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handlers and what they replaced are process-wide by nature: fault_state is this module's one
 * owner object. The guard is per thread. The handler runs on the interrupted stack and calls
 * nothing but siglongjmp or the previous handler; operations hold no locks when they touch device
 * memory.
 */
#include "shim/soft/exec/fault.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

static struct {
	pthread_once_t once;
	struct sigaction old_segv, old_bus;
	int error;
} fault_state = { .once = PTHREAD_ONCE_INIT };

/*
 * In static TLS: the handler reads it in threads that never ran a block, where the first access of
 * a dynamic one allocates, which deadlocks if the bad access was in the allocator.
 */
static _Thread_local struct gp_exec_scratch *volatile fault_guard
	__attribute__((tls_model("initial-exec")));

/* A positive code means that the kernel saw a bad access, not that somebody sent a signal. */
static bool fault_is_access(const siginfo_t *info)
{
	return info->si_code > 0;
}

static void fault_pass_on(int sig, siginfo_t *info, void *context)
{
	struct sigaction *old = sig == SIGSEGV ? &fault_state.old_segv : &fault_state.old_bus;

	if (old->sa_flags & SA_SIGINFO)
		old->sa_sigaction(sig, info, context);
	else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)
		old->sa_handler(sig);
	else if (old->sa_handler == SIG_DFL || fault_is_access(info)) {
		/* Returning repeats the access, which then kills; a sent signal is sent again. */
		sigaction(sig, old, NULL);
		if (!fault_is_access(info))
			raise(sig);
	}
}

static void fault_handler(int sig, siginfo_t *info, void *context)
{
	struct gp_exec_scratch *scratch = fault_guard;

	if (!scratch || !fault_is_access(info)) {
		fault_pass_on(sig, info, context);
		return;
	}
	fault_guard = NULL;
	scratch->fault_address = (uint64_t)(uintptr_t)info->si_addr;
	scratch->escape_code = -EFAULT;
	siglongjmp(scratch->escape, 1);
}

static void fault_install(void)
{
	/* NODEFER: the handler is left by siglongjmp, which then need not restore the mask. */
	struct sigaction act = { .sa_sigaction = fault_handler,
				 .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK };

	sigemptyset(&act.sa_mask);
	if (sigaction(SIGSEGV, &act, &fault_state.old_segv) ||
	    sigaction(SIGBUS, &act, &fault_state.old_bus))
		fault_state.error = -errno;
}

int gp_exec_fault_init(struct gp_exec_scratch *scratch, struct gp_err *err)
{
	sigset_t set;
	int r;

	if (scratch->is_signal_open)
		return 0;
	pthread_once(&fault_state.once, fault_install);
	if (fault_state.error)
		return gp_err_sys(err, fault_state.error, "cannot install the fault handler");
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigaddset(&set, SIGBUS);
	r = pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	if (r)
		return gp_err_sys(err, -r, "cannot unblock SIGSEGV");
	scratch->is_signal_open = true;
	return 0;
}

void gp_exec_fault_guard(struct gp_exec_scratch *scratch)
{
	fault_guard = scratch;
}

_Noreturn void gp_exec_fault(struct gp_exec_warp *w, uint64_t address)
{
	fault_guard = NULL;
	w->scratch->fault_address = address;
	w->scratch->escape_code = -EFAULT;
	siglongjmp(w->scratch->escape, 1);
}
