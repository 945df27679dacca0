# SPDX-License-Identifier: Apache-2.0
# Run by CPack at the end: the spec of each RPM goes beside the packages.
file(GLOB specs ${CPACK_TOPLEVEL_DIRECTORY}/SPECS/*.spec)
if(specs)
  file(COPY ${specs} DESTINATION ${CPACK_PACKAGE_DIRECTORY})
endif()
