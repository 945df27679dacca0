# SPDX-License-Identifier: Apache-2.0
# The target `package`: Debian packages, and RPMs with their specs where rpmbuild is, into the build folder's packages/.
# One package for each component: muster-slurm-plugin, libmuster, libmuster-dev, muster-trainer.

# A SPANK plugin works with the Slurm release series that it was built for and no other: Slurm compares major and minor version
# (src/common/plugin.c, _verify_syms). So the package depends on just that series.
set(slurm_series "")
if(SLURM_VERSION MATCHES "^([0-9]+)\\.([0-9]+)")
  set(slurm_series ${CMAKE_MATCH_0})
  math(EXPR next "1${CMAKE_MATCH_2} + 1")  # 105 + 1: the month keeps its two digits
  string(SUBSTRING ${next} 1 -1 next)
  set(slurm_after ${CMAKE_MATCH_1}.${next})
endif()

# The target `package` is our own: CMake's would build the tests too, and gives all packages one version. CMake makes its own where this
# file lies, as in a build folder of an earlier configuration.
file(REMOVE ${CMAKE_BINARY_DIR}/CPackConfig.cmake)

set(CPACK_GENERATOR "")
find_program(MUSTER_SHLIBDEPS dpkg-shlibdeps)
find_program(MUSTER_FILE file)  # CPack asks it which files dpkg-shlibdeps is to look at
if(MUSTER_SHLIBDEPS AND MUSTER_FILE)
  list(APPEND CPACK_GENERATOR DEB)
endif()
find_program(MUSTER_RPMBUILD rpmbuild)
if(MUSTER_RPMBUILD)
  list(APPEND CPACK_GENERATOR RPM)
endif()
list(JOIN CPACK_GENERATOR " and " kinds)
set(obstacle "")
if(NOT MUSTER_SYSTEM)
  set(obstacle "needs -DMUSTER_SYSTEM=ON: cmake --workflow --preset package")
elseif(NOT CPACK_GENERATOR)
  set(obstacle "needs dpkg-dev and file, or rpm-build")
endif()
if(obstacle)
  muster_note("packages" "" " ${obstacle}")
  add_custom_target(package COMMAND ${CMAKE_COMMAND} -E echo "package: ${obstacle}" COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
  return()
endif()
muster_note("packages" "${kinds}" "")

set(muster_package_plugin muster-slurm-plugin)
set(muster_package_runtime libmuster)
set(muster_package_development libmuster-dev)
set(muster_package_trainer muster-trainer)

# Two builds of the plugin for two Slurm releases are two versions of its package, and one follows the other when Slurm is upgraded.
set(muster_release 1)
set(muster_plugin_release ${muster_release})
if(slurm_series)
  string(APPEND muster_plugin_release "+slurm${slurm_series}")
endif()

set(MUSTER_PACKAGE_CONTACT "Muster developers <muster@muster.invalid>" CACHE STRING "Maintainer of the packages: Name <address>")
set(CPACK_PACKAGE_CONTACT ${MUSTER_PACKAGE_CONTACT})

# The licence and the changelogs of each package, which `cmake --install` leaves alone.
string(TIMESTAMP muster_package_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(packages/shlibs.in ${CMAKE_CURRENT_BINARY_DIR}/shlibs @ONLY)
set(muster_components runtime development trainer)
set(package_targets libmuster muster-train)
if(TARGET muster)
  list(APPEND package_targets muster)
endif()
if(TARGET spank_muster)
  list(PREPEND muster_components plugin)
  list(APPEND package_targets spank_muster spank_muster_step)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/packages/notices.cmake)
foreach(component ${muster_components})
  set(package_release ${muster_release})
  if(component STREQUAL plugin)
    set(package_release ${muster_plugin_release})
  endif()
  configure_file(packages/changelog.Debian.in ${CMAKE_CURRENT_BINARY_DIR}/${component}/changelog.Debian @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${component}/copyright ${CMAKE_CURRENT_BINARY_DIR}/${component}/changelog.Debian
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${muster_package_${component}} COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES ${CMAKE_SOURCE_DIR}/docs/CHANGELOG.md RENAME changelog
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${muster_package_${component}} COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()

set(CPACK_PACKAGE_NAME muster)
set(CPACK_PACKAGE_VENDOR Muster)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS runtime)
set(CPACK_COMPONENT_TRAINER_DEPENDS runtime)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/packages/finish_staging.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/packages/collect_specs.cmake)
# For finish_staging.cmake.
set(CPACK_MUSTER_CONFFILES ${CMAKE_CURRENT_BINARY_DIR}/conffiles)

set(muster_summary_plugin "Slurm plugin that places GPU training jobs")
set(muster_text_plugin "A SPANK plugin: with --muster every task of a job step runs on the cores and
memory beside its GPU, and finds the network card nearest to it in the
environment that NCCL, UCX and PyTorch read. Install it on login and compute
nodes. It works with Slurm ${slurm_series} only.")
set(muster_summary_runtime "library for multi-node GPU jobs under Slurm, and the muster command")
set(muster_text_runtime "Joins the ranks of a Slurm job, gives them communicators on NCCL and Open MPI,
and names who is missing when one is lost. The command muster shows the
placement that a node would get.")
set(muster_summary_development "development files of libmuster")
set(muster_text_development "Headers, CMake package and pkg-config file.")
set(muster_summary_trainer "training of GPTs and networks on images, started by Slurm")
set(muster_text_trainer "The program muster-train, and job scripts that run it.")

include(${CMAKE_CURRENT_LIST_DIR}/packages/debian.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/packages/rpm.cmake)
set(CPACK_OUTPUT_CONFIG_FILE ${CMAKE_CURRENT_BINARY_DIR}/cpack.cmake)
include(CPack)

# CPack knows one release for all packages of a run.
set(runs COMMAND ${CMAKE_CPACK_COMMAND} --config ${CPACK_OUTPUT_CONFIG_FILE}
  -D "CPACK_COMPONENTS_ALL=runtime\;development\;trainer" -D CPACK_DEBIAN_PACKAGE_RELEASE=${muster_release}
  -D CPACK_RPM_PACKAGE_RELEASE=${muster_release})
if(TARGET spank_muster)
  list(APPEND runs COMMAND ${CMAKE_CPACK_COMMAND} --config ${CPACK_OUTPUT_CONFIG_FILE}
    -D CPACK_COMPONENTS_ALL=plugin -D CPACK_DEBIAN_PACKAGE_RELEASE=${muster_plugin_release}
    -D CPACK_RPM_PACKAGE_RELEASE=${muster_plugin_release})
endif()
add_custom_target(package ${runs}
  COMMAND ${CMAKE_COMMAND} -E copy ${MUSTER_SBOM} ${CPACK_PACKAGE_DIRECTORY}/muster-${PROJECT_VERSION}.spdx.json
  DEPENDS ${package_targets} COMMENT "Making the packages" USES_TERMINAL VERBATIM)
