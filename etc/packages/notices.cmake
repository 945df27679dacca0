# SPDX-License-Identifier: Apache-2.0
# Included by packages.cmake: ${component}/copyright in the build folder, with the notices of the libraries whose code is in the programs of
# that package, from headers or static libraries. Each is the file that the library's own package installed, so it is of the same version.

# muster_find_notice(NAME FOLDERS…): where the library NAME has its notice, below /usr/share.
function(muster_find_notice name)
  list(TRANSFORM ARGN PREPEND /usr/share/)
  find_file(MUSTER_NOTICE_${name} NAMES copyright LICENSE LICENSE.txt LICENSE.md LICENSE.rst LICENSE.MIT LICENSE_1_0.txt
    PATHS ${ARGN} NO_DEFAULT_PATH DOC "Licence notice of ${name}")
  if(NOT MUSTER_NOTICE_${name})
    message(FATAL_ERROR "The licence notice of ${name} was not found; the packages must carry it, for they contain code of ${name}. "
      "Name its file with -DMUSTER_NOTICE_${name}=FILE.")
  endif()
endfunction()
muster_find_notice(asio doc/libasio-dev licenses/asio-devel licenses/asio)
muster_find_notice(CLI11 doc/libcli11-dev licenses/cli11-devel licenses/cli11)
muster_find_notice(fmt doc/libfmt-dev licenses/fmt-devel licenses/fmt)
muster_find_notice(nlohmann_json doc/nlohmann-json3-dev licenses/json-devel licenses/json)
muster_find_notice(pugixml doc/libpugixml-dev licenses/pugixml-devel licenses/pugixml)
muster_find_notice(tomlplusplus doc/libtomlplusplus-dev licenses/tomlplusplus-devel licenses/tomlplusplus)
set(notices_plugin nlohmann_json pugixml tomlplusplus)
set(notices_runtime asio CLI11 fmt nlohmann_json pugixml tomlplusplus)
set(notices_development "")
set(notices_trainer CLI11 fmt nlohmann_json tomlplusplus)
if(DNNL_FOUND)
  muster_find_notice(oneDNN doc/libdnnl-dev licenses/onednn-devel licenses/onednn)
  list(APPEND notices_trainer oneDNN)
endif()

foreach(component ${muster_components})
  set(notices "")
  foreach(name ${notices_${component}})
    file(READ "${MUSTER_NOTICE_${name}}" text)
    string(APPEND notices "\n== Contains code of ${name}, whose own file says:\n\n${text}")
  endforeach()
  if(component STREQUAL plugin)
    string(APPEND notices "\n== Contains code of libstdc++ and libgcc, linked statically:\n\n"
      "Copyright: the Free Software Foundation, Inc. and others\n"
      "License: GPL-3 or later, with the GCC Runtime Library Exception, version 3.1\n")
  endif()
  configure_file(${CMAKE_CURRENT_LIST_DIR}/copyright.in ${CMAKE_CURRENT_BINARY_DIR}/${component}/copyright @ONLY)
endforeach()
