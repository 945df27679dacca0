# SPDX-License-Identifier: Apache-2.0
# Run by `cmake --install`: puts zz-muster.conf into MUSTER_CONF_DIR/plugstack.conf.d. A file that is there is kept: the administrator
# may have edited it. Slurm looks for plugins in its PluginDir only, so below a prefix the line names the whole path.
get_filename_component(prefix "${CMAKE_INSTALL_PREFIX}" ABSOLUTE)
get_filename_component(folder "${MUSTER_CONF_DIR}/plugstack.conf.d" ABSOLUTE BASE_DIR "${prefix}")
get_filename_component(plugin_dir "${MUSTER_PLUGIN_DIR}" ABSOLUTE BASE_DIR "${prefix}")
set(file "$ENV{DESTDIR}${folder}/zz-muster.conf")
if(EXISTS "${file}")
  message(STATUS "Kept: ${file}")
  return()
endif()
file(INSTALL DESTINATION "${folder}" TYPE FILE FILES "${CMAKE_CURRENT_LIST_DIR}/plugstack.conf.d/zz-muster.conf")
if(NOT MUSTER_SYSTEM)
  file(READ "${file}" lines)
  string(REPLACE "optional spank_muster.so" "optional ${plugin_dir}/spank_muster.so" lines "${lines}")
  file(WRITE "${file}" "${lines}")
endif()
