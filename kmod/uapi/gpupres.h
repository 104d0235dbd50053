/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
#ifndef GP_KMOD_UAPI_GPUPRES_H
#define GP_KMOD_UAPI_GPUPRES_H
/*
 * ioctl ABI of /dev/gpupres, the character device of the kernel module. Numbers and layouts never
 * change once released; what is incompatible gets a new number. Integers are in native byte order
 * and fixed width, so that 32-bit programs see the same layouts.
 */
#include <linux/ioctl.h>
#include <linux/types.h>

/* ioctl type byte: 0xE7 is unassigned in Documentation/userspace-api/ioctl/ioctl-number.rst. */
#define GP_KMOD_IOC 0xE7

/* The ABI that this header describes: grows by one with each ioctl or flag added. */
#define GP_KMOD_ABI 1

/*
 * Stores the module's GP_KMOD_ABI. The module serves every ABI up to that number; a program that
 * needs a later one must do without the module. Needs no privilege, never blocks.
 * Fails with EFAULT (bad pointer) only.
 */
#define GP_KMOD_VERSION _IOR(GP_KMOD_IOC, 0x00, __u32)

#endif
