/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory of the software device; see vm.h. Ranges are kept in sorted arrays: lookups are
 * frequent (every copy), changes rare, a few thousand entries at most.
 */
#include "shim/soft/vm.h"

#include "base/size.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define GP_VM_SMALL_BYTES (1ull << 20) /* below: carved from a slab */
#define GP_VM_SLAB_UNIT	  512ull       /* alignment cuMemAlloc promises textures */
#define GP_VM_SLAB_UNITS  (GP_VM_GRANULE / GP_VM_SLAB_UNIT)

struct gp_vm_table {
	struct gp_vm_range *ranges;
	size_t n, max;
};

/* One granule shared by small allocations. */
struct gp_vm_slab {
	struct gp_vm_slab *next;
	uint64_t addr;
	uint32_t used_units;
	uint8_t used[GP_VM_SLAB_UNITS];
};

struct gp_vm {
	struct gp_state *state;
	pthread_mutex_t lock;
	struct gp_vm_table reserved, mapped, allocs;
	struct gp_vm_table files; /* "addresses" are keys */
	struct gp_vm_slab *slabs;
	uint64_t next_id, next_key;
};

static struct gp_vm gp_vm = { .lock = PTHREAD_MUTEX_INITIALIZER };

void gp_vm_init(struct gp_state *state)
{
	gp_vm.state = state;
}

/* Index of the first range that ends behind @addr. */
static size_t vm_lower(const struct gp_vm_table *table, uint64_t addr)
{
	size_t lo = 0, hi = table->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (table->ranges[mid].addr + table->ranges[mid].bytes <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct gp_vm_range *vm_lookup(const struct gp_vm_table *table, uint64_t addr)
{
	size_t i = vm_lower(table, addr);

	return i < table->n && table->ranges[i].addr <= addr ? &table->ranges[i] : NULL;
}

static bool vm_overlaps(const struct gp_vm_table *table, uint64_t addr, uint64_t bytes)
{
	size_t i = vm_lower(table, addr);

	return i < table->n && table->ranges[i].addr < addr + bytes;
}

static int vm_insert(struct gp_vm_table *table, const struct gp_vm_range *range)
{
	size_t i = vm_lower(table, range->addr);

	if (table->n == table->max) {
		size_t max = table->max ? 2 * table->max : 64;
		void *grown = realloc(table->ranges, max * sizeof(*table->ranges));

		if (!grown)
			return -ENOMEM;
		table->ranges = grown;
		table->max = max;
	}
	memmove(&table->ranges[i + 1], &table->ranges[i], (table->n - i) * sizeof(*range));
	table->ranges[i] = *range;
	table->n++;
	return 0;
}

static void vm_remove(struct gp_vm_table *table, struct gp_vm_range *range)
{
	size_t i = (size_t)(range - table->ranges);

	memmove(range, range + 1, (table->n - i - 1) * sizeof(*range));
	table->n--;
}

static void *vm_ptr(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* Address space only: never inherited, so that a child holds nothing alive. */
static int vm_mmap(uint64_t addr, uint64_t bytes, int prot, int fd, uint64_t offset, void **ret)
{
	int flags = (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED) |
		    (addr ? MAP_FIXED : 0);
	void *p = mmap(vm_ptr(addr), bytes, prot, flags, fd, (off_t)offset);

	if (p == MAP_FAILED)
		return -errno;
	madvise(p, bytes, MADV_DONTFORK);
	*ret = p;
	return 0;
}

static int vm_reserve(uint64_t bytes, uint64_t align, uint64_t hint, uint64_t *ret_addr)
{
	struct gp_vm_range range = { .bytes = bytes, .kind = GP_VM_RESERVED };
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	uint64_t start, head;
	void *p = MAP_FAILED;
	int r;

	if (hint && hint % GP_VM_GRANULE == 0)
		p = mmap(vm_ptr(hint), bytes, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
	if (p != MAP_FAILED && (uintptr_t)p != hint) {
		munmap(p, bytes); /* a kernel that takes the flag for a hint */
		p = MAP_FAILED;
	}
	if (p != MAP_FAILED) {
		range.addr = hint;
	} else {
		p = mmap(NULL, bytes + align, PROT_NONE, flags, -1, 0);
		if (p == MAP_FAILED)
			return -ENOMEM;
		start = (uintptr_t)p;
		range.addr = gp_round_up(start, align);
		head = range.addr - start;
		if (head)
			munmap(p, head);
		if (align - head)
			munmap(vm_ptr(range.addr + bytes), align - head);
	}
	madvise(vm_ptr(range.addr), bytes, MADV_DONTFORK);
	r = vm_insert(&gp_vm.reserved, &range);
	if (r < 0) {
		munmap(vm_ptr(range.addr), bytes);
		return r;
	}
	*ret_addr = range.addr;
	return 0;
}

int gp_vm_reserve(uint64_t bytes, uint64_t align, uint64_t hint, uint64_t *ret_addr)
{
	int r;

	if (!bytes || bytes % GP_VM_GRANULE || (align & (align - 1)) || bytes > 1ull << 46 ||
	    align > 1ull << 40)
		return -EINVAL;
	pthread_mutex_lock(&gp_vm.lock);
	r = vm_reserve(bytes, align < GP_VM_GRANULE ? GP_VM_GRANULE : align, hint, ret_addr);
	pthread_mutex_unlock(&gp_vm.lock);
	return r;
}

static int vm_unreserve(uint64_t addr, uint64_t bytes)
{
	struct gp_vm_range *range = vm_lookup(&gp_vm.reserved, addr);

	if (!range || range->addr != addr || range->bytes != bytes ||
	    vm_overlaps(&gp_vm.mapped, addr, bytes))
		return -EINVAL;
	munmap(vm_ptr(addr), bytes);
	vm_remove(&gp_vm.reserved, range);
	return 0;
}

int gp_vm_unreserve(uint64_t addr, uint64_t bytes)
{
	int r;

	pthread_mutex_lock(&gp_vm.lock);
	r = vm_unreserve(addr, bytes);
	pthread_mutex_unlock(&gp_vm.lock);
	return r;
}

/* Frees @file once nothing of this process refers to it. Lock held. */
static void vm_file_settle(struct gp_vm_file *file)
{
	if (!file->n_handles && file->holder) {
		munmap(file->holder, file->bytes);
		file->holder = NULL;
	}
	if (file->n_handles || file->n_maps)
		return;
	gp_state_file_reap(gp_vm.state, file->id, file->host);
	vm_remove(&gp_vm.files, vm_lookup(&gp_vm.files, file->key));
	free(file);
}

/* A file object for an open allocation, without handles or mappings. Lock held. */
static struct gp_vm_file *vm_file_new(uint64_t id, uint64_t bytes, bool host)
{
	struct gp_vm_file *file = calloc(1, sizeof(*file));
	struct gp_vm_range entry = { .bytes = 1, .file = file };

	if (!file)
		return NULL;
	*file = (struct gp_vm_file){
		.key = ++gp_vm.next_key, .host = host, .id = id, .bytes = bytes
	};
	entry.addr = file->key;
	if (vm_insert(&gp_vm.files, &entry) < 0) {
		free(file);
		return NULL;
	}
	return file;
}

static int vm_hold(struct gp_vm_file *file, int fd)
{
	int r = file->holder ? 0 : vm_mmap(0, file->bytes, PROT_NONE, fd, 0, &file->holder);

	if (r == 0)
		file->n_handles++;
	return r;
}

/* A file object with one handle for the allocation open as @fd; on failure @fd is the only user. */
static int vm_adopt(int fd, uint64_t id, uint64_t bytes, bool host, struct gp_vm_file **ret_file)
{
	struct gp_vm_file *file;
	int r;

	pthread_mutex_lock(&gp_vm.lock);
	file = vm_file_new(id, bytes, host);
	r = file ? vm_hold(file, fd) : -ENOMEM;
	if (r == 0)
		*ret_file = file;
	else if (file)
		vm_file_settle(file);
	pthread_mutex_unlock(&gp_vm.lock);
	return r;
}

int gp_vm_create(uint64_t bytes, bool host, struct gp_vm_file **ret_file)
{
	gp_auto_fd int fd = -1;
	uint64_t id;
	int r;

	if (!bytes || bytes % GP_VM_GRANULE)
		return -EINVAL;
	fd = gp_state_file_create(gp_vm.state, bytes, host, &id);
	if (fd < 0)
		return fd;
	r = vm_adopt(fd, id, bytes, host, ret_file);
	if (r < 0) {
		gp_close_fd(&fd);
		gp_state_file_reap(gp_vm.state, id, host);
	}
	return r;
}

struct gp_vm_file *gp_vm_handle(uint64_t key)
{
	const struct gp_vm_range *entry;
	struct gp_vm_file *file;

	pthread_mutex_lock(&gp_vm.lock);
	entry = vm_lookup(&gp_vm.files, key);
	file = entry && entry->file->n_handles ? entry->file : NULL;
	pthread_mutex_unlock(&gp_vm.lock);
	return file;
}

void gp_vm_release(struct gp_vm_file *file)
{
	pthread_mutex_lock(&gp_vm.lock);
	file->n_handles--;
	vm_file_settle(file);
	pthread_mutex_unlock(&gp_vm.lock);
}

static int vm_retain(uint64_t addr, struct gp_vm_file **ret_file)
{
	struct gp_vm_range *range = vm_lookup(&gp_vm.mapped, addr);
	gp_auto_fd int fd = -1;
	int r;

	if (!range)
		return -EINVAL;
	fd = gp_state_file_open(gp_vm.state, range->file->id, range->file->host);
	if (fd < 0)
		return fd;
	r = vm_hold(range->file, fd);
	if (r == 0)
		*ret_file = range->file;
	return r;
}

int gp_vm_retain(uint64_t addr, struct gp_vm_file **ret_file)
{
	int r;

	pthread_mutex_lock(&gp_vm.lock);
	r = vm_retain(addr, ret_file);
	pthread_mutex_unlock(&gp_vm.lock);
	return r;
}

int gp_vm_export(const struct gp_vm_file *file)
{
	return gp_state_file_open(gp_vm.state, file->id, file->host);
}

int gp_vm_import(int fd, struct gp_vm_file **ret_file)
{
	uint64_t id, bytes;
	bool host;
	int r = gp_state_file_identify(gp_vm.state, fd, &id, &host, &bytes);

	return r < 0 ? r : vm_adopt(fd, id, bytes, host, ret_file);
}

static int vm_map(uint64_t addr, uint64_t bytes, uint64_t offset, struct gp_vm_file *file, int prot)
{
	struct gp_vm_range range = {
		.addr = addr,
		.bytes = bytes,
		.kind = GP_VM_MAPPED,
		.prot = prot,
		.file = file,
		.file_offset = offset,
		.id = ++gp_vm.next_id,
	};
	const struct gp_vm_range *reserved = vm_lookup(&gp_vm.reserved, addr);
	gp_auto_fd int fd = -1;
	void *p;
	int r;

	if (!reserved || addr + bytes > reserved->addr + reserved->bytes ||
	    vm_overlaps(&gp_vm.mapped, addr, bytes))
		return -EINVAL;
	fd = gp_state_file_open(gp_vm.state, file->id, file->host);
	if (fd < 0)
		return fd;
	r = vm_insert(&gp_vm.mapped, &range);
	if (r < 0)
		return r;
	r = vm_mmap(addr, bytes, prot, fd, offset, &p);
	if (r < 0) {
		vm_remove(&gp_vm.mapped, vm_lookup(&gp_vm.mapped, addr));
		return r;
	}
	file->n_maps++;
	return 0;
}

int gp_vm_map(uint64_t addr, uint64_t bytes, uint64_t offset, struct gp_vm_file *file)
{
	int r;

	if (!bytes || (addr | bytes | offset) % GP_VM_GRANULE || offset > file->bytes ||
	    bytes > file->bytes - offset)
		return -EINVAL;
	pthread_mutex_lock(&gp_vm.lock);
	r = vm_map(addr, bytes, offset, file, PROT_NONE);
	pthread_mutex_unlock(&gp_vm.lock);
	return r;
}

/* Whether [addr, addr + bytes) is exactly a run of whole mappings. */
static bool vm_is_run(uint64_t addr, uint64_t bytes)
{
	uint64_t at = addr;

	for (size_t i = vm_lower(&gp_vm.mapped, addr); i < gp_vm.mapped.n && at < addr + bytes;
	     i++) {
		if (gp_vm.mapped.ranges[i].addr != at)
			return false;
		at += gp_vm.mapped.ranges[i].bytes;
	}
	return bytes && at == addr + bytes;
}

static int vm_unmap(uint64_t addr, uint64_t bytes)
{
	void *p;
	int r;

	if (!vm_is_run(addr, bytes))
		return -EINVAL;
	r = vm_mmap(addr, bytes, PROT_NONE, -1, 0, &p);
	if (r < 0)
		return r;
	for (uint64_t at = addr; at < addr + bytes;) {
		struct gp_vm_range *range = vm_lookup(&gp_vm.mapped, at);
		struct gp_vm_file *file = range->file;

		at += range->bytes;
		vm_remove(&gp_vm.mapped, range);
		file->n_maps--;
		vm_file_settle(file);
	}
	return 0;
}

int gp_vm_unmap(uint64_t addr, uint64_t bytes)
{
	int r;

	pthread_mutex_lock(&gp_vm.lock);
	r = vm_unmap(addr, bytes);
	pthread_mutex_unlock(&gp_vm.lock);
	return r;
}

int gp_vm_protect(uint64_t addr, uint64_t bytes, int prot)
{
	int r = -EINVAL;

	pthread_mutex_lock(&gp_vm.lock);
	if (vm_is_run(addr, bytes)) {
		r = mprotect(vm_ptr(addr), bytes, prot) < 0 ? -errno : 0;
		for (size_t i = vm_lower(&gp_vm.mapped, addr);
		     r == 0 && i < gp_vm.mapped.n && gp_vm.mapped.ranges[i].addr < addr + bytes;
		     i++)
			gp_vm.mapped.ranges[i].prot = prot;
	}
	pthread_mutex_unlock(&gp_vm.lock);
	return r;
}

/* Reservation, allocation and mapping in one. */
static int vm_back(uint64_t bytes, uint64_t *ret_addr)
{
	struct gp_vm_file *file;
	uint64_t id, addr;
	int r, fd = gp_state_file_create(gp_vm.state, bytes, false, &id);

	if (fd < 0)
		return fd;
	file = vm_file_new(id, bytes, false);
	r = file ? vm_reserve(bytes, GP_VM_GRANULE, 0, &addr) : -ENOMEM;
	if (r == 0) {
		r = vm_map(addr, bytes, 0, file, PROT_READ | PROT_WRITE);
		if (r < 0)
			vm_unreserve(addr, bytes);
	}
	close(fd);
	if (r < 0) {
		if (file)
			vm_file_settle(file);
		else
			gp_state_file_reap(gp_vm.state, id, false);
		return r;
	}
	*ret_addr = addr;
	return 0;
}

static void vm_unback(uint64_t addr, uint64_t bytes)
{
	if (vm_unmap(addr, bytes) == 0)
		vm_unreserve(addr, bytes);
}

static int vm_slab_take(struct gp_vm_slab *slab, uint32_t units, uint64_t *ret_addr)
{
	uint32_t run = 0;

	if (slab->used_units + units > GP_VM_SLAB_UNITS)
		return -ENOSPC;
	for (uint32_t i = 0; i < GP_VM_SLAB_UNITS; i++) {
		run = slab->used[i] ? 0 : run + 1;
		if (run < units)
			continue;
		memset(&slab->used[i + 1 - units], 1, units);
		slab->used_units += units;
		*ret_addr = slab->addr + (i + 1 - units) * GP_VM_SLAB_UNIT;
		return 0;
	}
	return -ENOSPC;
}

static int vm_small_alloc(uint64_t bytes, uint64_t *ret_addr)
{
	uint32_t units = (uint32_t)(gp_round_up(bytes, GP_VM_SLAB_UNIT) / GP_VM_SLAB_UNIT);
	struct gp_vm_slab *slab;
	int r;

	for (slab = gp_vm.slabs; slab; slab = slab->next)
		if (vm_slab_take(slab, units, ret_addr) == 0)
			return 0;
	slab = calloc(1, sizeof(*slab));
	if (!slab)
		return -ENOMEM;
	r = vm_back(GP_VM_GRANULE, &slab->addr);
	if (r < 0) {
		free(slab);
		return r;
	}
	slab->next = gp_vm.slabs;
	gp_vm.slabs = slab;
	return vm_slab_take(slab, units, ret_addr);
}

static void vm_small_free(uint64_t addr, uint64_t bytes)
{
	uint32_t units = (uint32_t)(gp_round_up(bytes, GP_VM_SLAB_UNIT) / GP_VM_SLAB_UNIT);

	for (struct gp_vm_slab **p = &gp_vm.slabs; *p; p = &(*p)->next) {
		struct gp_vm_slab *slab = *p;

		if (addr < slab->addr || addr >= slab->addr + GP_VM_GRANULE)
			continue;
		memset(&slab->used[(addr - slab->addr) / GP_VM_SLAB_UNIT], 0, units);
		slab->used_units -= units;
		if (!slab->used_units) {
			*p = slab->next;
			vm_unback(slab->addr, GP_VM_GRANULE);
			free(slab);
		}
		return;
	}
}

static void vm_alloc_undo(uint64_t addr, uint64_t bytes)
{
	if (bytes < GP_VM_SMALL_BYTES)
		vm_small_free(addr, bytes);
	else
		vm_unback(addr, gp_round_up(bytes, GP_VM_GRANULE));
}

int gp_vm_alloc(uint64_t bytes, uint64_t *ret_addr)
{
	struct gp_vm_range range = { .bytes = bytes, .kind = GP_VM_ALLOC };
	int r;

	if (!bytes)
		return -EINVAL;
	if (bytes > 1ull << 46)
		return -ENOMEM;
	pthread_mutex_lock(&gp_vm.lock);
	r = bytes < GP_VM_SMALL_BYTES ? vm_small_alloc(bytes, &range.addr)
				      : vm_back(gp_round_up(bytes, GP_VM_GRANULE), &range.addr);
	if (r == 0) {
		range.id = ++gp_vm.next_id;
		r = vm_insert(&gp_vm.allocs, &range);
		if (r < 0)
			vm_alloc_undo(range.addr, bytes);
	}
	pthread_mutex_unlock(&gp_vm.lock);
	if (r == 0)
		*ret_addr = range.addr;
	return r;
}

/* Takes the entry that starts at @addr out of the table. */
static int vm_take_alloc(uint64_t addr, enum gp_vm_kind kind, uint64_t *ret_bytes)
{
	struct gp_vm_range *range = vm_lookup(&gp_vm.allocs, addr);

	if (!range || range->addr != addr || range->kind != kind)
		return -EINVAL;
	*ret_bytes = range->bytes;
	vm_remove(&gp_vm.allocs, range);
	return 0;
}

int gp_vm_free(uint64_t addr)
{
	uint64_t bytes;
	int r;

	pthread_mutex_lock(&gp_vm.lock);
	r = vm_take_alloc(addr, GP_VM_ALLOC, &bytes);
	if (r == 0)
		vm_alloc_undo(addr, bytes);
	pthread_mutex_unlock(&gp_vm.lock);
	return r;
}

static int vm_add_host(uint64_t addr, uint64_t bytes, enum gp_vm_kind kind)
{
	struct gp_vm_range range = { .addr = addr, .bytes = bytes, .kind = kind };
	int r = -EEXIST;

	pthread_mutex_lock(&gp_vm.lock);
	range.id = ++gp_vm.next_id;
	if (!vm_overlaps(&gp_vm.allocs, addr, bytes))
		r = vm_insert(&gp_vm.allocs, &range);
	pthread_mutex_unlock(&gp_vm.lock);
	return r;
}

int gp_vm_host_alloc(uint64_t bytes, uint64_t *ret_addr)
{
	void *p;
	int r;

	if (!bytes)
		return -EINVAL;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	r = vm_add_host((uintptr_t)p, bytes, GP_VM_HOST);
	if (r < 0) {
		munmap(p, bytes);
		return r;
	}
	*ret_addr = (uintptr_t)p;
	return 0;
}

int gp_vm_host_free(uint64_t addr)
{
	uint64_t bytes;
	int r;

	pthread_mutex_lock(&gp_vm.lock);
	r = vm_take_alloc(addr, GP_VM_HOST, &bytes);
	pthread_mutex_unlock(&gp_vm.lock);
	if (r == 0)
		munmap(vm_ptr(addr), bytes);
	return r;
}

int gp_vm_host_register(uint64_t addr, uint64_t bytes)
{
	return !addr || !bytes || addr + bytes < addr ? -EINVAL
						      : vm_add_host(addr, bytes, GP_VM_REGISTERED);
}

int gp_vm_host_unregister(uint64_t addr)
{
	uint64_t bytes;
	int r;

	pthread_mutex_lock(&gp_vm.lock);
	r = vm_take_alloc(addr, GP_VM_REGISTERED, &bytes);
	pthread_mutex_unlock(&gp_vm.lock);
	return r;
}

static bool vm_copy_out(const struct gp_vm_range *range, struct gp_vm_range *ret_range)
{
	if (range && ret_range)
		*ret_range = *range;
	return range != NULL;
}

bool gp_vm_find(uint64_t addr, struct gp_vm_range *ret_range)
{
	const struct gp_vm_range *range;
	bool found;

	pthread_mutex_lock(&gp_vm.lock);
	range = vm_lookup(&gp_vm.allocs, addr);
	found = vm_copy_out(range ? range : vm_lookup(&gp_vm.mapped, addr), ret_range);
	pthread_mutex_unlock(&gp_vm.lock);
	return found;
}

bool gp_vm_find_mapping(uint64_t addr, struct gp_vm_range *ret_range)
{
	bool found;

	pthread_mutex_lock(&gp_vm.lock);
	found = vm_copy_out(vm_lookup(&gp_vm.mapped, addr), ret_range);
	pthread_mutex_unlock(&gp_vm.lock);
	return found;
}

bool gp_vm_is_device(uint64_t addr)
{
	return gp_vm_covers(addr, 1);
}

bool gp_vm_covers(uint64_t addr, uint64_t bytes)
{
	uint64_t at = addr;

	if (addr + bytes < addr)
		return false;
	pthread_mutex_lock(&gp_vm.lock);
	while (at < addr + bytes) {
		const struct gp_vm_range *range = vm_lookup(&gp_vm.reserved, at);

		if (!range)
			break;
		at = range->addr + range->bytes;
	}
	pthread_mutex_unlock(&gp_vm.lock);
	return at >= addr + bytes;
}
