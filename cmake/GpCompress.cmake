# SPDX-License-Identifier: Apache-2.0
# Run by cpack in the installed tree, as Debian's policy has it; -n: the same input, the same package.
file(GLOB_RECURSE pages ${CPACK_TEMPORARY_DIRECTORY}/usr/share/man/*.[1-8]
  ${CPACK_TEMPORARY_DIRECTORY}/usr/share/doc/gpupres/changelog.Debian)
execute_process(COMMAND gzip -9nf ${pages} RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "cannot compress ${pages}")
endif()
