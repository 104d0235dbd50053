/* SPDX-License-Identifier: Apache-2.0 */
/* Origin: written for this project. tiny_*.fatbin are made from it by regen.sh beside it. */
extern "C" __global__ void tiny(int *p)
{
	p[threadIdx.x] = threadIdx.x;
}
