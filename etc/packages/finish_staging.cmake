# SPDX-License-Identifier: Apache-2.0
# Run by CPack once all components are staged, for each kind of package.
set(staged ${CPACK_TEMPORARY_INSTALL_DIRECTORY})

if(CPACK_GENERATOR STREQUAL "DEB")
  file(GLOB_RECURSE compressible ${staged}/*/usr/share/man/*.[1-8] ${staged}/*/usr/share/doc/*/changelog*)
  execute_process(COMMAND gzip -9 -n -f ${compressible} COMMAND_ERROR_IS_FATAL ANY)
  # What Debian's packages need lies where the loader looks.
  file(GLOB_RECURSE programs ${staged}/*/usr/bin/* ${staged}/*/libmuster.so.*.*)
  foreach(program ${programs})
    file(RPATH_REMOVE FILE ${program})
  endforeach()
else()
  file(GLOB_RECURSE debian ${staged}/*/changelog.Debian)
  file(REMOVE ${debian})
  # RPM systems have no common place for the licence's text.
  file(GLOB documents ${staged}/*/usr/share/doc/*muster*)
  foreach(folder ${documents})
    file(COPY ${CMAKE_CURRENT_LIST_DIR}/../../LICENSE DESTINATION ${folder})
  endforeach()
  file(GLOB folder ${staged}/development/usr/share/doc/libmuster-dev)
  if(folder)
    file(RENAME ${folder} ${folder}el)
  endif()
endif()

# Everything under /etc is the administrator's to edit: a package never overwrites an edited file.
file(GLOB_RECURSE configuration RELATIVE ${staged}/plugin ${staged}/plugin/etc/*)
list(SORT configuration)
set(conffiles "")
set(CPACK_RPM_PLUGIN_USER_FILELIST "")
foreach(file ${configuration})
  string(APPEND conffiles "/${file}\n")
  list(APPEND CPACK_RPM_PLUGIN_USER_FILELIST "%config(noreplace) /${file}")
endforeach()
file(WRITE ${CPACK_MUSTER_CONFFILES} "${conffiles}")
