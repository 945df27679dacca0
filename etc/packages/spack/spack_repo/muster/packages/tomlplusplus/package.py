# SPDX-License-Identifier: Apache-2.0
from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Tomlplusplus(CMakePackage):
    """Header-only TOML parser and writer for C++17; Spack's own repository has none."""

    homepage = "https://marzer.github.io/tomlplusplus"
    url = "https://github.com/marzer/tomlplusplus/archive/v3.4.0.tar.gz"

    license("MIT")

    version("3.4.0", sha256="8517f65938a4faae9ccf8ebb36631a38c1cadfb5efa85d9a72e15b9e97d25155")

    depends_on("cxx", type="build")
    depends_on("cmake@3.14:", type="build")
