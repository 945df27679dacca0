# SPDX-License-Identifier: Apache-2.0
# What is RPM's own; included by packages.cmake. Names are those of SchedMD's and EPEL's packages.
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_PACKAGE_AUTOREQ ON)
set(CPACK_PACKAGE_RELOCATABLE OFF)
set(CPACK_RPM_SPEC_MORE_DEFINE "%define _build_id_links none")
foreach(component plugin runtime development trainer)
  string(TOUPPER ${component} upper)
  set(CPACK_RPM_${upper}_PACKAGE_NAME ${muster_package_${component}})
  set(CPACK_RPM_${upper}_PACKAGE_SUMMARY "${muster_summary_${component}}")
  set(CPACK_RPM_${upper}_PACKAGE_DESCRIPTION "${muster_text_${component}}")
endforeach()
set(CPACK_RPM_DEVELOPMENT_PACKAGE_NAME libmuster-devel)
set(CPACK_RPM_RUNTIME_PACKAGE_SUGGESTS openmpi)  # loaded when a job needs it
set(own_version "libmuster = ${PROJECT_VERSION}-${muster_release}")
set(CPACK_RPM_DEVELOPMENT_PACKAGE_REQUIRES "${own_version}")
set(CPACK_RPM_TRAINER_PACKAGE_REQUIRES "${own_version}")
set(CPACK_RPM_PLUGIN_POST_UNINSTALL_SCRIPT_FILE ${CMAKE_CURRENT_LIST_DIR}/postrm)
if(slurm_series)
  set(CPACK_RPM_PLUGIN_PACKAGE_REQUIRES "slurm >= ${slurm_series}, slurm < ${slurm_after}")
endif()
# Folders that belong to the system or to Slurm.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /etc /etc/slurm /etc/slurm/plugstack.conf.d ${slurm_conf_dir}
  ${slurm_conf_dir}/plugstack.conf.d ${slurm_plugin_dir} /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} /usr/share/man
  /usr/share/man/man1 /usr/share/man/man5 /usr/share/man/man7 /usr/share/man/man8
  /usr/${CMAKE_INSTALL_LIBDIR}/cmake /usr/${CMAKE_INSTALL_LIBDIR}/pkgconfig)
