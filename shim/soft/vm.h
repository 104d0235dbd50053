/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_SHIM_SOFT_VM_H
#define GP_SHIM_SOFT_VM_H
/*
 * Addresses and physical memory of the process. A device address is a host address: a reservation
 * is a PROT_NONE mapping, a mapping puts an allocation file (state.h) there.
 *
 * What keeps an allocation alive here: each handle has a PROT_NONE mapping of the file (the
 * "holder", which costs no descriptor), each mapping maps it. Every one of them pins an open file
 * description with the shared lock. None is inherited by a forked child (MADV_DONTFORK), so
 * memory given back by the parent is free although a child lives.
 *
 * One lock of its own; no function calls out with it held, none waits for the device.
 */
#include "shim/soft/state.h"

#include <stddef.h>

#define GP_VM_GRANULE (2ull << 20) /* CU_MEM_ALLOC_GRANULARITY on the card (FACTS: 2 MiB) */

struct gp_vm_file {
	uint64_t key; /* what programs hold as a handle; never used twice */
	bool host;
	uint64_t id;
	uint64_t bytes;
	uint32_t n_handles, n_maps;
	void *holder; /* while n_handles > 0 */
};

enum gp_vm_kind {
	GP_VM_RESERVED,
	GP_VM_MAPPED,	  /* device memory behind a reservation */
	GP_VM_ALLOC,	  /* from gp_vm_alloc */
	GP_VM_HOST,	  /* from gp_vm_host_alloc */
	GP_VM_REGISTERED, /* host memory of the program */
};

struct gp_vm_range {
	uint64_t addr, bytes;
	enum gp_vm_kind kind;
	int prot;		 /* GP_VM_MAPPED */
	struct gp_vm_file *file; /* GP_VM_MAPPED */
	uint64_t file_offset;
	uint64_t id; /* unique per allocation: CU_POINTER_ATTRIBUTE_BUFFER_ID */
};

void gp_vm_init(struct gp_state *state);

/* All: 0 or negative errno; -EINVAL for what does not exist or does not fit. Sizes in bytes. */
gp_must_check int gp_vm_reserve(uint64_t bytes, uint64_t align, uint64_t hint, uint64_t *ret_addr);
gp_must_check int gp_vm_unreserve(uint64_t addr, uint64_t bytes);

/* Makes an allocation with one handle. -ENOMEM over the capacity. */
gp_must_check int gp_vm_create(uint64_t bytes, bool host, struct gp_vm_file **ret_file);
/* The allocation with a handle of value @key, NULL if there is none. */
struct gp_vm_file *gp_vm_handle(uint64_t key);
void gp_vm_release(struct gp_vm_file *file);
/* One more handle to whatever is mapped at @addr. */
gp_must_check int gp_vm_retain(uint64_t addr, struct gp_vm_file **ret_file);
/* A new CLOEXEC descriptor, the caller's. */
gp_must_check int gp_vm_export(const struct gp_vm_file *file);
/* The descriptor stays the caller's. */
gp_must_check int gp_vm_import(int fd, struct gp_vm_file **ret_file);

gp_must_check int gp_vm_map(uint64_t addr, uint64_t bytes, uint64_t offset,
			    struct gp_vm_file *file);
/* The range must consist of whole mappings. */
gp_must_check int gp_vm_unmap(uint64_t addr, uint64_t bytes);
gp_must_check int gp_vm_protect(uint64_t addr, uint64_t bytes, int prot);

gp_must_check int gp_vm_alloc(uint64_t bytes, uint64_t *ret_addr);
/* The caller has made sure that the device does not use it any more. */
gp_must_check int gp_vm_free(uint64_t addr);

gp_must_check int gp_vm_host_alloc(uint64_t bytes, uint64_t *ret_addr);
gp_must_check int gp_vm_host_free(uint64_t addr);
gp_must_check int gp_vm_host_register(uint64_t addr, uint64_t bytes);
gp_must_check int gp_vm_host_unregister(uint64_t addr);

/* The allocation (or, for VMM memory, the mapping) that holds @addr. */
bool gp_vm_find(uint64_t addr, struct gp_vm_range *ret_range);
bool gp_vm_find_mapping(uint64_t addr, struct gp_vm_range *ret_range);
/*
 * Whether an address, or every byte of a range, is the device's. What is mapped there is not asked:
 * a copy may be queued while the memory of a frozen program is away, as on the card.
 */
bool gp_vm_is_device(uint64_t addr);
bool gp_vm_covers(uint64_t addr, uint64_t bytes);

#endif
