# SPDX-License-Identifier: Apache-2.0
"""Versions, options and libraries in the descriptions of Muster for Spack, EasyBuild, RPM, Debian and the forge agree with CMakeLists.txt."""
import json
import os
import re
import subprocess
import sys
import types
import unittest
from pathlib import Path

SOURCE = Path(os.environ["MUSTER_SOURCE"])
VERSION = os.environ["MUSTER_VERSION"]
CMAKE = (SOURCE / "CMakeLists.txt").read_text()
PARTS = set(re.findall(r"^muster_part\((\w+) ", CMAKE, flags=re.M))
PACKAGES = SOURCE / "etc/packages"
# What a build with CMake says beside the parts.
OTHER_OPTIONS = {"MUSTER_TESTS", "MUSTER_SYSTEM"}


def options(text):
    return set(re.findall(r"-D(MUSTER_\w+)=", text)) - OTHER_OPTIONS


class SpackPackage:
    """Runs a package.py with stand-ins for Spack's classes and directives, which are noted."""

    def __init__(self, path):
        self.calls = []
        names = ("version", "variant", "depends_on", "conflicts", "license", "generator", "maintainers")
        module = types.ModuleType("spack.package")
        for name in names:
            setattr(module, name, lambda *args, name=name, **more: self.calls.append((name, args, more)))
        base = type("CMakePackage", (), {"define": staticmethod(lambda name, value: (name, value)),
                                         "define_from_variant": lambda _, name, variant: (name, variant)})
        cuda = type("CudaPackage", (), {})
        stubs = {"spack": types.ModuleType("spack"), "spack.package": module}
        for folder in ("spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
            stubs[folder] = types.ModuleType(folder)
        for name, kind in (("cmake", base), ("cuda", cuda)):
            stub = types.ModuleType(name)
            setattr(stub, kind.__name__, kind)
            stubs[f"spack_repo.builtin.build_systems.{name}"] = stub
        sys.modules.update(stubs)
        scope = {}
        exec(compile(path.read_text(), str(path), "exec"), scope)
        self.package = next(kind for name, kind in scope.items() if isinstance(kind, type) and issubclass(kind, base) and kind is not base)
        self.has_cuda = issubclass(self.package, cuda)

    def first_arguments(self, name):
        return [args[0] for called, args, _ in self.calls if called == name]


class Spec:
    def __init__(self, *satisfied, **variants):
        self.satisfied = satisfied
        self.variants = {name: types.SimpleNamespace(value=value) for name, value in variants.items()}

    def satisfies(self, condition):
        return condition in self.satisfied


class Spack(unittest.TestCase):
    def setUp(self):
        self.repository = PACKAGES / "spack/spack_repo/muster"
        self.spack = SpackPackage(self.repository / "packages/muster/package.py")

    def test_version_and_least_versions_are_those_of_cmake(self):
        self.assertEqual(self.spack.first_arguments("version"), [VERSION])
        wanted = self.spack.first_arguments("depends_on")
        for package, pattern in (("cmake", r"cmake_minimum_required\(VERSION ([\d.]+)"), ("hwloc", r"hwloc>=([\d.]+)"),
                                 ("cuda", r"find_package\(CUDAToolkit (\d+)"), ("nccl", r"NCCL_VERSION VERSION_GREATER_EQUAL ([\d.]+)")):
            self.assertIn(f"{package}@{re.search(pattern, CMAKE)[1]}:", wanted)

    def test_each_part_is_a_variant_that_sets_its_option(self):
        variants = set(self.spack.first_arguments("variant")) | ({"cuda"} if self.spack.has_cuda else set())
        self.assertEqual(variants, {part.lower() for part in PARTS})
        package = self.spack.package()
        package.spec = Spec("cuda_arch=none")
        arguments = dict(package.cmake_args())
        self.assertIs(arguments.pop("MUSTER_TESTS"), False)
        self.assertEqual(arguments, {f"MUSTER_{part}": part.lower() for part in PARTS})
        package.spec = Spec("+cuda", cuda_arch=("80", "90"))
        self.assertEqual(dict(package.cmake_args())["MUSTER_CUDA_ARCHITECTURES"], "80;90")

    def test_the_package_that_spack_lacks_is_complete(self):
        toml = SpackPackage(self.repository / "packages/tomlplusplus/package.py")
        self.assertIn(toml.first_arguments("version")[0], toml.package.url)
        self.assertIn("namespace: muster\n", (self.repository / "repo.yaml").read_text())


class EasyBuild(unittest.TestCase):
    def read(self, path):
        scope = {"SOURCE_TAR_GZ": "", "SOURCELOWER_TAR_GZ": "", "SYSTEM": {"name": "system"}}
        exec(compile(path.read_text(), str(path), "exec"), scope)
        return scope

    def test_file_names_say_what_is_in_them(self):
        for path in (PACKAGES / "easybuild").glob("*.eb"):
            config = self.read(path)
            cuda = {name: version for name, version, *_ in config.get("dependencies", [])}.get("CUDA", "")
            suffix = config.get("versionsuffix", "").replace("%(cudaver)s", cuda)
            chain = config["toolchain"]
            self.assertEqual(path.name, f"{config['name']}-{config['version']}-{chain['name']}-{chain['version']}{suffix}.eb")

    def test_version_and_options_are_those_of_cmake(self):
        (path,) = (PACKAGES / "easybuild").glob("Muster-*.eb")
        config = self.read(path)
        self.assertEqual(config["version"], VERSION)
        self.assertEqual(options(config["configopts"]), {f"MUSTER_{part}" for part in PARTS})
        needed = {name for name, *_ in config["builddependencies"]}
        for path in (PACKAGES / "easybuild").glob("asio-*.eb"):
            self.assertIn("asio", needed)


class Rpm(unittest.TestCase):
    def setUp(self):
        self.spec = (PACKAGES / "muster.spec").read_text()

    def test_version_options_and_packages_are_those_of_cmake(self):
        self.assertIn(f"\nVersion: {VERSION}\n", self.spec)
        self.assertEqual(options(self.spec), {f"MUSTER_{part}" for part in PARTS})
        named = dict(re.findall(r"set\(muster_package_(\w+) ([\w-]+)\)", (SOURCE / "etc/packages.cmake").read_text()))
        files = {component: name for name, component in re.findall(r"^%files -n (\S+) -f (\w+)\.files$", self.spec, flags=re.M)}
        self.assertEqual(files, named | {"development": "libmuster-devel"})

    def test_least_versions_are_those_of_cmake(self):
        for package, pattern in (("cmake", r"cmake_minimum_required\(VERSION ([\d.]+)"), ("cuda-nvcc", r"find_package\(CUDAToolkit (\d+)"),
                                 ("libnccl-devel", r"NCCL_VERSION VERSION_GREATER_EQUAL ([\d.]+)")):
            self.assertIn(f"\nBuildRequires: {package} >= {re.search(pattern, CMAKE)[1]}\n", self.spec)


class Debian(unittest.TestCase):
    def test_rules_name_each_part(self):
        self.assertEqual(options((PACKAGES / "debian/rules").read_text()), {f"MUSTER_{part}" for part in PARTS})

    def test_what_the_build_needs_is_what_ci_installs(self):
        control = (PACKAGES / "debian/control").read_text()
        field = re.search(r"^Build-Depends: (.*?)^\S*$", control, flags=re.M | re.S)[1]
        needed = {entry.split()[0] for entry in field.split(",") if "<" not in entry.split("(")[0] and "<pkg." not in entry}
        installed = {name for line in (SOURCE / ".ci/packages").read_text().splitlines() if line.startswith("build ") for name in line.split()[1:]}
        # The compiler is in every build; mpirun runs tests; the plugin's folder is that of the last.
        self.assertEqual(needed, (installed - {"g++", "openmpi-bin"}) | {"debhelper-compat", "slurm-wlm-basic-plugins"})

    def test_packages_and_components_are_those_of_cpack(self):
        named = dict(re.findall(r"set\(muster_package_(\w+) ([\w-]+)\)", (SOURCE / "etc/packages.cmake").read_text()))
        built = dict(pair.split("=")[::-1] for pair in re.search(r"^packages := (.*)$", (PACKAGES / "debian/rules").read_text(), flags=re.M)[1].split())
        self.assertEqual(built, named)
        self.assertEqual(set(re.findall(r"^Package: (\S+)$", (PACKAGES / "debian/control").read_text(), flags=re.M)), set(named.values()))


class Forge(unittest.TestCase):
    def setUp(self):
        import yaml
        self.jobs = yaml.safe_load((SOURCE / ".github/workflows/ci.yml").read_text())["jobs"]
        self.steps = [step for job in self.jobs.values() for step in job["steps"]]

    def test_jobs_have_a_time_limit_and_need_jobs_that_exist(self):
        for job in self.jobs.values():
            self.assertIn("timeout-minutes", job)
            self.assertLessEqual(set(job.get("needs", [])), set(self.jobs))

    def test_actions_have_a_version_and_commands_exist(self):
        groups = {line.split()[0] for line in (SOURCE / ".ci/packages").read_text().splitlines() if line[:1] not in ("#", "")}
        ran = 0
        for step in self.steps:
            if "uses" in step:
                self.assertRegex(step["uses"], r"^[\w-]+/[\w-]+@(v\d|[0-9a-f]{40}$)")
            for command in re.findall(r"(?m)^\s*((?:\./|\.ci/|etc/)[\w/.-]+)", step.get("run", "")):
                self.assertTrue(os.access(SOURCE / command, os.X_OK), command)
                ran += 1
            for line in re.findall(r"install-packages (.*)", step.get("run", "")):
                self.assertLessEqual(set(line.split()), groups)
        self.assertGreaterEqual(ran, 4)

    def test_every_kind_of_image_is_built_and_released(self):
        recipe = (SOURCE / "etc/containers/build-image").read_text()
        kinds = set(re.search(r"is not an image: name ([\w, ]+) or (\w+)\"", recipe).expand(r"\1, \2").split(", "))
        script = "".join(step.get("run", "") for step in self.jobs["images"]["steps"])
        self.assertEqual(set(re.search(r"for image in ([\w ]+);", script)[1].split()), kinds)
        self.assertIn("images", self.jobs["release"]["needs"])

    def test_release_notes_are_the_changelogs(self):
        command = [str(SOURCE / ".ci/release-notes")]
        notes = subprocess.run([*command, VERSION], capture_output=True, text=True, check=True).stdout
        self.assertIn(notes.splitlines()[0], (SOURCE / "docs/CHANGELOG.md").read_text())
        self.assertNotIn("\n## ", notes)
        unknown = subprocess.run([*command, "99.1"], capture_output=True, text=True)
        self.assertEqual((unknown.returncode, unknown.stdout, unknown.stderr.count("\n")), (1, "", 1))
        self.assertIn("no section '## 99.1'", unknown.stderr)


class Sbom(unittest.TestCase):
    def setUp(self):
        self.sbom = json.loads(Path(os.environ["MUSTER_SBOM"]).read_text())
        self.packages = {package["SPDXID"]: package for package in self.sbom["packages"]}

    def test_each_library_has_a_version_and_a_relation(self):
        self.assertEqual(len(self.packages), len(self.sbom["packages"]))
        self.assertEqual([r["relatedSpdxElement"] for r in self.sbom["relationships"]], list(self.packages))
        for package in self.packages.values():
            self.assertRegex(package["versionInfo"], r"^\d+(\.\d+)+", package["name"])
        self.assertEqual(self.packages["SPDXRef-muster"]["versionInfo"], VERSION)

    def test_libraries_whose_notices_the_packages_carry_are_listed(self):
        noticed = set(re.findall(r"muster_find_notice\((\w+) doc/", (PACKAGES / "notices.cmake").read_text()))
        self.assertGreater(len(noticed), 5)
        if "oneDNN" not in {package["name"] for package in self.packages.values()}:
            noticed.discard("oneDNN")
        self.assertLessEqual(noticed, {package["name"] for package in self.packages.values()})


class Wheel(unittest.TestCase):
    def test_version_is_that_of_cmake(self):
        self.assertIn(f'\nversion = "{VERSION}"\n', (SOURCE / "runtime/python/pyproject.toml").read_text())


if __name__ == "__main__":
    unittest.main()
