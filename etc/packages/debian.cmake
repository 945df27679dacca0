# SPDX-License-Identifier: Apache-2.0
# What is Debian's own; included by packages.cmake.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
foreach(component plugin runtime development trainer)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${muster_package_${component}})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${muster_summary_${component}}\n${muster_text_${component}}")
endforeach()
set(CPACK_DEBIAN_PLUGIN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_TRAINER_PACKAGE_SECTION science)

# Login nodes have srun without slurmd; what both have is the package with Slurm's plugins: slurm-wlm-basic-plugins from Debian,
# slurm-smd from SchedMD's own packaging (debian/control of Slurm's source). The two conflict, so the alternatives cannot mix.
if(slurm_series)
  set(CPACK_DEBIAN_PLUGIN_PACKAGE_DEPENDS
    "slurm-wlm-basic-plugins (>= ${slurm_series}) | slurm-smd (>= ${slurm_series}), slurm-wlm-basic-plugins (<< ${slurm_after}~) | slurm-smd (<< ${slurm_after}~)")
endif()
set(CPACK_DEBIAN_PLUGIN_PACKAGE_CONTROL_EXTRA ${CPACK_MUSTER_CONFFILES} ${CMAKE_CURRENT_LIST_DIR}/postrm)
# libmuster loads Open MPI when a job needs it, so dpkg-shlibdeps does not find it.
if(OMPI_FOUND)
  get_filename_component(libmpi ${OMPI_LINK_LIBRARIES} REALPATH)
  execute_process(COMMAND dpkg-query --search ${libmpi} OUTPUT_VARIABLE libmpi_package ERROR_QUIET)
  string(REGEX REPLACE ":.*" "" CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "${libmpi_package}")
endif()
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/shlibs ${CMAKE_CURRENT_LIST_DIR}/triggers)
