/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_TESTS_MODEL_DAEMON_H
#define GP_TESTS_MODEL_DAEMON_H
/* Between the parts of the model's daemon; as the functions of gp_preempt_ and gp_recover_. */
#include "daemon/proc.h"
#include "tests/model/system.h"

bool m_is_final(const struct m_daemon *d);
void m_set_state(struct m_sys *sys, enum gp_job_state state, uint32_t by);
bool m_any_present(const struct m_sys *sys);
void m_tell_mover(struct m_sys *sys, uint32_t type, uint32_t i, uint32_t arg);
void m_begin_op(struct m_sys *sys, enum gp_op op);
/* @known_locked: who is locked is not told again. */
void m_begin_lock(struct m_sys *sys, bool known_locked);
void m_cancel(struct m_sys *sys);
bool m_resume(struct m_sys *sys);

/* Events: false if they cannot happen. */
bool m_start(struct m_sys *sys);
bool m_decide(struct m_sys *sys, bool without_late);

#endif
