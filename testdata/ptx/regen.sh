#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the checked-in PTX from kernels.cu again (nvcc 13).
set -eu
cd "$(dirname "$0")"
nvcc -ptx -arch=sm_75 kernels.cu -o kernels_sm75.ptx
nvcc -ptx -arch=sm_90 kernels.cu -o kernels_sm90.ptx
nvcc -ptx -arch=sm_90 --use_fast_math kernels.cu -o kernels_fast.ptx
nvcc -ptx -arch=sm_75 -O0 -Xcicc -O0 kernels.cu -o kernels_o0.ptx
for mode in balance:zstd speed:lz4 none:raw; do
	nvcc -fatbin -gencode arch=compute_75,code=compute_75 -gencode arch=compute_80,code=compute_80 \
		-compress-mode="${mode%%:*}" tiny.cu -o "tiny_${mode##*:}.fatbin"
done
