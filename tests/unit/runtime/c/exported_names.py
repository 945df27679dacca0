# SPDX-License-Identifier: Apache-2.0
"""exported_names.py LIBRARY HEADERS PROGRAM: checks that the library exports the functions of muster.h and the declarations of the C++
headers, and nothing else except the PMIx function that it wraps; and that PROGRAM, which links it, requires the C interface's version."""
import pathlib
import re
import subprocess
import sys

library, headers, program = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


header = "".join(p.read_text() for p in sorted(headers.glob("*.h")))
code = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
declared = set(re.findall(r"MUSTER_API [^;(]*?\b(muster_\w+)\(", code))
abi = re.search(r"#define MUSTER_ABI_VERSION (\d+)", header)[1]
classes = set(re.findall(r"(?:class|struct) MUSTER_EXPORT (\w+)", "".join(p.read_text() for p in headers.glob("*.hpp"))))
functions = set(re.findall(r"MUSTER_EXPORT [^;({]*?\b(\w+)\(", "".join(p.read_text() for p in headers.glob("*.hpp"))))

problems, c_names = [], set()
for line in output("nm", "-D", "--defined-only", library).splitlines():
    kind, name = line.split()[-2:]
    name, _, version = name.partition("@@")
    if kind == "A":  # a version's name
        continue
    if name == "PMIx_Notify_event":  # runtime/communicator/mpi/lost_rank_reports.cpp
        continue
    if name.startswith("muster_"):
        c_names.add(name)
        if version != f"MUSTER_C_{abi}":
            problems.append(f"{name} has the version '{version}'")
        continue
    plain = output("c++filt", name).strip()
    owner = re.match(r"(?:typeinfo for |typeinfo name for |vtable for )?muster::(\w+)", plain)
    if not owner or owner[1] not in classes | functions:
        problems.append(f"{plain} is shown, but no public header declares it")
problems += [f"{name} is shown but not declared in muster.h" for name in sorted(c_names - declared)]
problems += [f"{name} is declared in muster.h but not shown" for name in sorted(declared - c_names)]
if f"MUSTER_C_{abi}" not in output("readelf", "--version-info", program):
    problems.append(f"{program} does not require MUSTER_C_{abi}")
if len(declared) < 20 or len(classes) < 3:
    problems.append(f"only {len(declared)} functions and {len(classes)} classes were found in {headers}")
print(f"{len(c_names)} C functions")
sys.exit("\n".join(problems) or None)
