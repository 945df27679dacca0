# SPDX-License-Identifier: Apache-2.0
from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Muster(CMakePackage, CudaPackage):
    """Starts multi-node GPU training under Slurm: a SPANK plugin that places tasks, a library that joins the ranks, and a trainer."""

    homepage = "https://muster.invalid"
    # Built from a checkout: spack dev-build --source-path FOLDER muster@0.1.0
    manual_download = True

    license("Apache-2.0", checked_by="muster")

    version("0.1.0")

    # Each variant is the CMake option of its name.
    variant("hwloc", default=True, description="Placement, the plugin and the command muster")
    variant("slurm", default=True, description="The SPANK plugin, which works with the Slurm release that it is built with")
    variant("pmix", default=True, description="Joining through PMIx")
    variant("openmpi", default=True, description="Collectives on host memory, with Open MPI")
    variant("onednn", default=True, description="The trainer's matrix products and convolutions on the CPU")
    # cuda and cuda_arch are CudaPackage's; with cuda comes NCCL.

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("asio@1.22:", type="build")
    depends_on("cli11@2:", type="build")
    depends_on("fmt@9:")
    depends_on("libjpeg-turbo")
    depends_on("libpng")
    depends_on("libsodium")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("pcre2")
    depends_on("pugixml@1.13:")
    depends_on("tomlplusplus@3:", type="build")

    depends_on("hwloc@2.1:", when="+hwloc")
    depends_on("slurm", when="+slurm")
    depends_on("pmix@4:", when="+pmix")
    depends_on("openmpi@4.1:", when="+openmpi")
    depends_on("onednn@2.6:", when="+onednn")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl@2.23:", when="+cuda")

    conflicts("~hwloc", when="+slurm", msg="the plugin places tasks with hwloc: add +hwloc or ~slurm")
    conflicts("%gcc@:11", msg="Muster needs C++20: GCC 12 or newer")

    generator("ninja")

    def cmake_args(self):
        args = [
            self.define("MUSTER_TESTS", False),
            self.define_from_variant("MUSTER_HWLOC", "hwloc"),
            self.define_from_variant("MUSTER_SLURM", "slurm"),
            self.define_from_variant("MUSTER_PMIX", "pmix"),
            self.define_from_variant("MUSTER_OPENMPI", "openmpi"),
            self.define_from_variant("MUSTER_ONEDNN", "onednn"),
            self.define_from_variant("MUSTER_CUDA", "cuda"),
        ]
        if self.spec.satisfies("+cuda") and not self.spec.satisfies("cuda_arch=none"):
            args.append(self.define("MUSTER_CUDA_ARCHITECTURES", ";".join(self.spec.variants["cuda_arch"].value)))
        return args
