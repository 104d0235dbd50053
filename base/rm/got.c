/* SPDX-License-Identifier: Apache-2.0 */
/* ELF gABI dynamic section: DT_JMPREL and DT_RELA hold the relocations that filled the GOT. */
#include "base/rm/got.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define GOT_PAGE_BYTES 4096ull /* x86-64 */

struct got_object {
	uintptr_t base;
	uintptr_t relro_start, relro_end; /* pages that are read-only after relocation */
	const Elf64_Sym *symbols;
	const char *strings;
	struct {
		const Elf64_Rela *entries;
		size_t bytes;
	} plt, data;
};

/* Called for every loaded object; the one at @arg's base is ours. */
static int got_find_relro(struct dl_phdr_info *info, size_t info_bytes, void *arg)
{
	struct got_object *o = arg;

	if (info->dlpi_addr != o->base)
		return 0;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_GNU_RELRO)
			continue;
		/* Both rounded down, as ld.so does: it protects whole pages only. */
		o->relro_start = (o->base + p->p_vaddr) & ~(GOT_PAGE_BYTES - 1);
		o->relro_end = (o->base + p->p_vaddr + p->p_memsz) & ~(GOT_PAGE_BYTES - 1);
	}
	return 1;
}

static struct got_object got_open(const struct link_map *map)
{
	struct got_object o = { .base = map->l_addr };

	dl_iterate_phdr(got_find_relro, &o);
	/* glibc has relocated the pointers of the dynamic section of every loaded object. */
	for (const Elf64_Dyn *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB:
			o.symbols = (const Elf64_Sym *)d->d_un.d_ptr;
			break;
		case DT_STRTAB:
			o.strings = (const char *)d->d_un.d_ptr;
			break;
		case DT_JMPREL:
			o.plt.entries = (const Elf64_Rela *)d->d_un.d_ptr;
			break;
		case DT_PLTRELSZ:
			o.plt.bytes = d->d_un.d_val;
			break;
		case DT_RELA:
			o.data.entries = (const Elf64_Rela *)d->d_un.d_ptr;
			break;
		case DT_RELASZ:
			o.data.bytes = d->d_un.d_val;
			break;
		default:
			break;
		}
	}
	return o;
}

/*
 * The slot may lie in a page that was made read-only after relocation (RELRO), and is so again
 * after the write. Any other page is left writable: lazy binding goes on writing to it.
 */
static int got_write(const struct got_object *o, void **slot, void *value, struct gp_err *err)
{
	/* A pointer slot is 8-byte aligned and so lies in one page. */
	uintptr_t page = (uintptr_t)slot & ~(GOT_PAGE_BYTES - 1);
	bool relro = page >= o->relro_start && page < o->relro_end;

	if (relro && mprotect((void *)page, GOT_PAGE_BYTES, PROT_READ | PROT_WRITE) < 0)
		return gp_err_sys(err, -errno, "cannot make the driver's GOT writable");
	__atomic_store_n(slot, value, __ATOMIC_RELEASE);
	/* A page that stays writable is less safe than it was, but works. */
	if (relro)
		(void)mprotect((void *)page, GOT_PAGE_BYTES, PROT_READ);
	return 0;
}

static int got_patch_table(const struct got_object *o, const Elf64_Rela *entries, size_t bytes,
			   const char *symbol, void *replacement, struct gp_err *err)
{
	int n = 0, r;

	for (size_t i = 0; entries && i < bytes / sizeof(*entries); i++) {
		uint32_t type = ELF64_R_TYPE(entries[i].r_info);
		const Elf64_Sym *s = &o->symbols[ELF64_R_SYM(entries[i].r_info)];

		if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT &&
		     type != R_X86_64_64) ||
		    s->st_shndx != SHN_UNDEF || strcmp(o->strings + s->st_name, symbol))
			continue;
		r = got_write(o, (void **)(o->base + entries[i].r_offset), replacement, err);
		if (r < 0)
			return r;
		n++;
	}
	return n;
}

int gp_got_patch(void *handle, const char *symbol, void *replacement, struct gp_err *err)
{
	struct link_map *map = NULL;
	struct got_object o;
	int plt, data;

	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) < 0)
		return gp_err_set(err, -ENOENT, "no link map: %s", dlerror());
	o = got_open(map);
	if (!o.symbols || !o.strings)
		return gp_err_set(err, -ENOENT, "%s has no dynamic symbols", map->l_name);
	plt = got_patch_table(&o, o.plt.entries, o.plt.bytes, symbol, replacement, err);
	if (plt < 0)
		return plt;
	data = got_patch_table(&o, o.data.entries, o.data.bytes, symbol, replacement, err);
	if (data < 0)
		return data;
	if (plt + data == 0)
		return gp_err_set(err, -ENOENT, "%s does not import %s", map->l_name, symbol);
	return 0;
}
