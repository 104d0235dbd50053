# SPDX-License-Identifier: Apache-2.0
# Finds nvcc and cuda.h without CMake's own CUDA language support, which insists on linking a test
# program against the driver. ./setup passes -DGP_CUDA_HOME when it took the compiler from PyPI.

set(GP_CUDA_HOME "" CACHE PATH "CUDA toolkit (bin/nvcc, include/cuda.h)")
find_program(GP_NVCC nvcc HINTS ${GP_CUDA_HOME}/bin $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if(NOT GP_NVCC)
  message(FATAL_ERROR "nvcc not found: install the CUDA compiler, set CUDA_HOME, or run ./setup")
endif()
get_filename_component(gp_nvcc_real ${GP_NVCC} REALPATH)
get_filename_component(gp_nvcc_bin ${gp_nvcc_real} DIRECTORY)
find_path(GP_CUDA_INCLUDE cuda.h HINTS ${GP_CUDA_HOME}/include ${gp_nvcc_bin}/../include
  ${gp_nvcc_bin}/../targets/x86_64-linux/include)
if(NOT GP_CUDA_INCLUDE)
  message(FATAL_ERROR "cuda.h not found beside ${GP_NVCC}: set GP_CUDA_HOME")
endif()

# Declarations of the driver API only: nothing here links against NVIDIA's libraries.
add_library(gp_cuda_headers INTERFACE)
target_include_directories(gp_cuda_headers SYSTEM INTERFACE ${GP_CUDA_INCLUDE})
