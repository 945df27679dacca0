# SPDX-License-Identifier: Apache-2.0
# Finds every package that Muster uses. Required ones stop the configuration with the Debian package that has them;
# optional ones are reported by muster_print_summary() and built around.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

set(MUSTER_SUMMARY "")
function(muster_note name found detail)
  set(MUSTER_SUMMARY "${MUSTER_SUMMARY}\n  ${name}: ${found}${detail}" PARENT_SCOPE)
endfunction()
function(muster_print_summary)
  message(STATUS "Muster ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}:${MUSTER_SUMMARY}")
endfunction()

macro(muster_require_package package debian)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} is missing: install it (on Debian: apt-get install ${debian}) and configure again.")
  endif()
endmacro()

muster_require_package(CLI11 libcli11-dev)
muster_require_package(fmt libfmt-dev)
muster_require_package(spdlog libspdlog-dev)
muster_require_package(nlohmann_json nlohmann-json3-dev)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)
add_library(muster_asio INTERFACE)
target_include_directories(muster_asio SYSTEM INTERFACE ${ASIO_INCLUDE_DIR})
target_compile_definitions(muster_asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED)
target_link_libraries(muster_asio INTERFACE Threads::Threads)

# hwloc: placement and the plugin need it.
pkg_check_modules(HWLOC IMPORTED_TARGET hwloc>=2.1)
muster_note("hwloc (placement, plugin, `muster plan`)" "${HWLOC_FOUND}" " ${HWLOC_VERSION}")

# Slurm: only its plugin header; nothing links libslurm.
find_path(SLURM_INCLUDE_DIR slurm/spank.h)
if(SLURM_INCLUDE_DIR)
  add_library(muster_slurm_headers INTERFACE)
  target_include_directories(muster_slurm_headers SYSTEM INTERFACE ${SLURM_INCLUDE_DIR})
  set(SLURM_HEADERS_FOUND 1)
endif()
muster_note("Slurm headers (plugin)" "${SLURM_HEADERS_FOUND}" " ${SLURM_INCLUDE_DIR}")

pkg_check_modules(PMIX IMPORTED_TARGET pmix)
muster_note("PMIx (join under srun --mpi=pmix and mpirun)" "${PMIX_FOUND}" " ${PMIX_VERSION}")

pkg_check_modules(OMPI IMPORTED_TARGET ompi-c)
muster_note("Open MPI (collectives on host memory)" "${OMPI_FOUND}" " ${OMPI_VERSION}")

# oneDNN: Debian's CMake package insists on OpenCL development files, so look for the library itself.
find_path(DNNL_INCLUDE_DIR dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)
find_package(OpenMP QUIET COMPONENTS CXX)
if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY)
  add_library(muster_dnnl INTERFACE)
  target_include_directories(muster_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
  target_link_libraries(muster_dnnl INTERFACE ${DNNL_LIBRARY})
  set(DNNL_FOUND 1)
endif()
muster_note("oneDNN (the trainer's matrix products on the CPU)" "${DNNL_FOUND}" " ${DNNL_LIBRARY}")

# CUDA and NCCL: headers to compile against; the libraries themselves are loaded at run time.
set(MUSTER_HAVE_CUDA OFF)
if(NOT MUSTER_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit 12 QUIET)
  if(CUDAToolkit_FOUND)
    find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
    if(NCCL_INCLUDE_DIR)
      file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h nccl_lines REGEX "define NCCL_(MAJOR|MINOR|PATCH) ")
      string(REGEX REPLACE "[^0-9]*([0-9]+)[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2.\\3" NCCL_VERSION "${nccl_lines}")
    endif()
  endif()
  if(CUDAToolkit_FOUND AND NCCL_VERSION VERSION_GREATER_EQUAL 2.23)
    set(MUSTER_HAVE_CUDA ON)
  elseif(MUSTER_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MUSTER_CUDA=ON needs CUDA >= 12 (found: '${CUDAToolkit_VERSION}') and NCCL >= 2.23 (found: '${NCCL_VERSION}').")
  endif()
endif()
muster_note("CUDA and NCCL (collectives on GPU memory)" "${MUSTER_HAVE_CUDA}" " CUDA ${CUDAToolkit_VERSION}, NCCL ${NCCL_VERSION}")
