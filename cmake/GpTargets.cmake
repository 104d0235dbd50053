# SPDX-License-Identifier: Apache-2.0
# Target helpers: one set of warnings, two flavours of each internal library.
#
#   gp_library(NAME src...)   static library NAME for executables (sanitized when GP_SANITIZE is set)
#                             and NAME_pic for shared objects. Shared objects are loaded into foreign
#                             programs, where an address- or thread-sanitized library cannot run;
#                             they get undefined-behaviour checks only.
#   gp_link(NAME dep...)      links the matching flavour of internal libraries into both.
#   gp_program(NAME DIR src...)   executable NAME, put into DIR of the build tree.
#   gp_shared(NAME DIR src...)    shared object with hidden symbols, put into DIR of the build tree.

add_library(gp_flags INTERFACE)
target_include_directories(gp_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(gp_flags INTERFACE _GNU_SOURCE GP_VERSION="${PROJECT_VERSION}")
target_compile_options(gp_flags INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
  -Wno-unused-parameter -ffp-contract=off -fno-strict-aliasing -fno-common)
if(GP_WERROR)
  target_compile_options(gp_flags INTERFACE -Werror)
endif()

add_library(gp_flags_exe INTERFACE)
target_link_libraries(gp_flags_exe INTERFACE gp_flags)
add_library(gp_flags_so INTERFACE)
target_link_libraries(gp_flags_so INTERFACE gp_flags)
if(GP_SANITIZE)
  target_compile_options(gp_flags_exe INTERFACE -fsanitize=${GP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(gp_flags_exe INTERFACE -fsanitize=${GP_SANITIZE})
  if(GP_SANITIZE MATCHES "undefined")
    target_compile_options(gp_flags_so INTERFACE -fsanitize=undefined -fno-sanitize-recover=all -fno-sanitize=vptr)
    target_link_options(gp_flags_so INTERFACE -fsanitize=undefined -static-libubsan)
  endif()
endif()

function(gp_library name)
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${ARGN})
  target_link_libraries(${name} PUBLIC gp_flags_exe)
  add_library(${name}_pic STATIC EXCLUDE_FROM_ALL ${ARGN})
  target_link_libraries(${name}_pic PUBLIC gp_flags_so)
  set_target_properties(${name}_pic PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
endfunction()

function(gp_link name)
  foreach(dep ${ARGN})
    if(TARGET ${dep}_pic)
      target_link_libraries(${name} PUBLIC ${dep})
      target_link_libraries(${name}_pic PUBLIC ${dep}_pic)
    else()
      target_link_libraries(${name} PUBLIC ${dep})
      target_link_libraries(${name}_pic PUBLIC ${dep})
    endif()
  endforeach()
endfunction()

function(gp_program name dir)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE gp_flags_exe)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${dir})
endfunction()

function(gp_shared name dir)
  add_library(${name} SHARED ${ARGN})
  target_link_libraries(${name} PRIVATE gp_flags_so)
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${dir} C_VISIBILITY_PRESET hidden)
  target_link_options(${name} PRIVATE -Wl,--no-undefined -Wl,-z,now)
endfunction()
