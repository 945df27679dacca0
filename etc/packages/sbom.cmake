# SPDX-License-Identifier: Apache-2.0
# Included by etc/CMakeLists.txt: muster.spdx.json in the build folder, the libraries of this build with version, licence and how each is used
# (https://spdx.github.io/spdx-spec/v2.3). Their versions are those that the configuration found.
set(sbom_packages "[]")
set(sbom_relations "[]")

# muster_sbom_add(NAME VERSION LICENCE RELATION): one library that Muster has by that SPDX relation; without a version none is written.
function(muster_sbom_add name version licence relation)
  string(MAKE_C_IDENTIFIER "${name}" id)
  string(REPLACE "_" "-" id "SPDXRef-${id}")
  set(package "{\"SPDXID\": \"${id}\", \"name\": \"${name}\", \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false,
    \"licenseConcluded\": \"NOASSERTION\", \"licenseDeclared\": \"${licence}\", \"copyrightText\": \"NOASSERTION\"}")
  if(version)
    string(JSON package SET "${package}" versionInfo "\"${version}\"")
  endif()
  string(JSON count LENGTH "${sbom_packages}")
  string(JSON sbom_packages SET "${sbom_packages}" ${count} "${package}")
  set(of SPDXRef-muster)
  if(relation STREQUAL DESCRIBES)
    set(of SPDXRef-DOCUMENT)
  endif()
  string(JSON sbom_relations SET "${sbom_relations}" ${count}
    "{\"spdxElementId\": \"${of}\", \"relationshipType\": \"${relation}\", \"relatedSpdxElement\": \"${id}\"}")
  set(sbom_packages "${sbom_packages}" PARENT_SCOPE)
  set(sbom_relations "${sbom_relations}" PARENT_SCOPE)
endfunction()

# muster_version_of(result FILE PREFIX): "3.3.0" of a header's lines #define PREFIX_MAJOR 3, …
function(muster_version_of result file prefix)
  set(version "")
  if(EXISTS "${file}")
    foreach(part MAJOR MINOR PATCH)
      file(STRINGS "${file}" line REGEX "define ${prefix}_${part} +[0-9]+" LIMIT_COUNT 1)
      string(REGEX REPLACE ".* ([0-9]+).*" ".\\1" line "${line}")
      string(APPEND version "${line}")
    endforeach()
  endif()
  string(REGEX REPLACE "^[.]" "" version "${version}")
  set(${result} "${version}" PARENT_SCOPE)
endfunction()
file(GLOB toml_file ${TOMLPLUSPLUS_INCLUDE_DIR}/toml++/impl/version.h*)  # .hpp from 3.4 on
muster_version_of(toml_version "${toml_file}" TOML_LIB)
file(STRINGS ${ASIO_INCLUDE_DIR}/asio/version.hpp asio_line REGEX "// [0-9]+[.][0-9]+[.][0-9]+$")
string(REGEX MATCH "[0-9]+[.][0-9]+[.][0-9]+$" asio_version "${asio_line}")

# Licences are SPDX's names of what the libraries' own licence files say.
muster_sbom_add(muster "${PROJECT_VERSION}" Apache-2.0 DESCRIBES)
muster_sbom_add(asio "${asio_version}" BSL-1.0 CONTAINS)
muster_sbom_add(CLI11 "${CLI11_VERSION}" BSD-3-Clause CONTAINS)
muster_sbom_add(fmt "${fmt_VERSION}" MIT CONTAINS)
muster_sbom_add(nlohmann_json "${nlohmann_json_VERSION}" MIT CONTAINS)
muster_sbom_add(pugixml "${pugixml_VERSION}" MIT CONTAINS)
muster_sbom_add(tomlplusplus "${toml_version}" MIT CONTAINS)
muster_sbom_add(libsodium "${SODIUM_VERSION}" ISC DYNAMIC_LINK)
muster_sbom_add(PCRE2 "${PCRE2_VERSION}" BSD-3-Clause DYNAMIC_LINK)
muster_sbom_add(libjpeg-turbo "${JPEG_VERSION}" "IJG AND BSD-3-Clause AND Zlib" DYNAMIC_LINK)
muster_sbom_add(libpng "${PNG_VERSION}" libpng-2.0 DYNAMIC_LINK)
if(HWLOC_FOUND)
  muster_sbom_add(hwloc "${HWLOC_VERSION}" BSD-3-Clause DYNAMIC_LINK)
endif()
if(PMIX_FOUND)
  muster_sbom_add(PMIx "${PMIX_VERSION}" BSD-3-Clause-Open-MPI DYNAMIC_LINK)
endif()
if(DNNL_FOUND)
  muster_version_of(dnnl_version ${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h DNNL_VERSION)
  set(relation DYNAMIC_LINK)
  if(DNNL_LIBRARY MATCHES "[.]a$")
    set(relation CONTAINS)
  endif()
  muster_sbom_add(oneDNN "${dnnl_version}" Apache-2.0 ${relation})
endif()
if(TARGET spank_muster AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  muster_sbom_add(libstdc++ "${CMAKE_CXX_COMPILER_VERSION}" "GPL-3.0-or-later WITH GCC-exception-3.1" CONTAINS)
endif()
# Loaded while a program runs; the versions are those of the headers.
if(OMPI_FOUND)
  muster_sbom_add(OpenMPI "${OMPI_VERSION}" BSD-3-Clause-Open-MPI DEPENDS_ON)
endif()
if(MUSTER_HAVE_CUDA)
  muster_sbom_add(NCCL "${NCCL_VERSION}" BSD-3-Clause DEPENDS_ON)
  muster_sbom_add(CUDA "${CUDAToolkit_VERSION}" NOASSERTION DEPENDS_ON)
endif()
if(SLURM_HEADERS_FOUND)
  muster_sbom_add(Slurm "${SLURM_VERSION}" GPL-2.0-or-later DEPENDS_ON)
endif()

string(MD5 sbom_sum "${sbom_packages}${sbom_relations}")
string(TIMESTAMP sbom_time "%Y-%m-%dT%H:%M:%SZ" UTC)
set(MUSTER_SBOM ${CMAKE_CURRENT_BINARY_DIR}/muster.spdx.json)
file(CONFIGURE OUTPUT ${MUSTER_SBOM} @ONLY CONTENT [[{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "muster-@PROJECT_VERSION@",
  "documentNamespace": "https://muster.invalid/spdx/muster-@PROJECT_VERSION@-@sbom_sum@",
  "creationInfo": {"created": "@sbom_time@", "creators": ["Tool: muster-sbom.cmake-@PROJECT_VERSION@"]},
  "packages": @sbom_packages@,
  "relationships": @sbom_relations@
}
]])
