/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GP_BASE_VISIBLE_H
#define GP_BASE_VISIBLE_H
/*
 * Which of NVIDIA's GPUs a process may use, told without the driver: what CUDA_VISIBLE_DEVICES
 * lists (numbers or UUIDs; the list ends at its first entry that means none), else all that the
 * kernel module knows.
 */
#include <stddef.h>
#include <stdint.h>

/* A folder for each GPU, with its minor number in the file "information". */
#define GP_VISIBLE_PROC "/proc/driver/nvidia/gpus"
#define GP_VISIBLE_DEV	"/dev"

/*
 * How many there are. @list is the value of CUDA_VISIBLE_DEVICES or NULL; @proc and @dev are
 * GP_VISIBLE_PROC and GP_VISIBLE_DEV but in tests. A GPU without its node nvidiaMINOR in @dev does
 * not count: containers are given some nodes, and often see all of /proc.
 */
uint32_t gp_visible_count(const char *list, const char *proc, const char *dev);

/*
 * What CUDA_VISIBLE_DEVICES must be for a process that is to see just number @ordinal of what
 * @list shows.
 */
void gp_visible_entry(const char *list, uint32_t ordinal, char *buf, size_t buf_bytes);

#endif
