# SPDX-License-Identifier: Apache-2.0
# The Debian package: `cmake --build --preset package`, which needs the prefix /usr, as units name
# programs by their path. Its dependencies are those that dpkg-shlibdeps finds.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME gpupres)
set(CPACK_PACKAGE_VENDOR gpupres)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "preempt and resume GPU jobs together with their memory")
set(CPACK_PACKAGE_DESCRIPTION
"Takes the GPU away from running CUDA programs, in the middle of a kernel and with
their memory, and gives both back later: the programs go on bit for bit. Programs
and driver are unmodified.
.
This package has the service (gpupresd), its client (gpupresctl), and a software
device to try both without a GPU.")
set(CPACK_STRIP_FILES ON)
# Units lie where systemd looks, which need not be below the prefix.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
# Debian wants a person to answer for a package: whoever builds it.
set(GP_PACKAGE_MAINTAINER "gpupres <gpupres@localhost>" CACHE STRING "Maintainer of the Debian package")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${GP_PACKAGE_MAINTAINER})
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# procps has kill(1), by which systemd reloads.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "systemd, procps")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(gp_debian ${CMAKE_SOURCE_DIR}/cmake/debian)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${gp_debian}/postinst ${gp_debian}/prerm ${gp_debian}/postrm)
# What an administrator changes below /etc is asked about, not overwritten.
install(FILES ${CMAKE_BINARY_DIR}/share/doc/gpupres/examples/gpupresd.conf
  DESTINATION /etc/gpupres)
file(WRITE ${CMAKE_BINARY_DIR}/conffiles /etc/gpupres/gpupresd.conf\n)
list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/conffiles)
# Man pages are compressed after they were installed, before they are packed.
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/GpCompress.cmake)

install(FILES ${gp_debian}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/gpupres)
install(FILES ${gp_debian}/changelog DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/gpupres
  RENAME changelog.Debian)
include(CPack)
