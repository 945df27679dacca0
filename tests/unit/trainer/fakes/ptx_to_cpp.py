#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns nvcc's PTX into C++ for the fake GPU.

ptx_to_cpp.py PTX CPP TABLE

Each instruction becomes a call of the function of its name in ptx_instructions.hpp: fma.rn.f32 of `fma_rn<f32>`, ld.global.v4.u32 of
`ld_global_v4<u32>`. Registers are integers that hold bits. An instruction that has no such function does not compile. TABLE is the name
of the array of kernels that CPP defines.
"""
import re
import sys

REGISTER_TYPES = {"pred": "bool", "b16": "u16", "b32": "u32", "b64": "u64", "f32": "u32", "f64": "u64"}
TYPE = re.compile(r"[usbf](?:8|16|32|64)|pred")
SPECIAL = {"tid": "threadIdx", "ntid": "blockDim", "ctaid": "blockIdx", "nctaid": "gridDim"}
ENTRY = re.compile(r"\.visible \.entry (\w+)\((.*?)\)[^{]*\{(.*?)^\}", re.DOTALL | re.MULTILINE)


def split_operands(text):
    """The operands between commas that no brace encloses."""
    return [operand.strip() for operand in re.split(r",(?![^{]*\})", text)] if text.strip() else []


def operand_to_cpp(operand, parameters):
    if operand.startswith("{"):
        return "std::tie(%s)" % ", ".join(operand_to_cpp(part, parameters) for part in split_operands(operand[1:-1]))
    if operand.startswith("["):
        return address_to_cpp(operand[1:-1].strip(), parameters)
    if "|" in operand:  # a second result, which the kernels do not use
        return operand_to_cpp(operand.partition("|")[0], parameters)
    special = re.fullmatch(r"%(\w+)\.([xyz])", operand)
    if special:
        return f"{SPECIAL[special[1]]}.{special[2]}"
    if operand.startswith("%"):
        return operand[1:]
    if re.fullmatch(r"0f[0-9A-F]{8}", operand):
        return f"0x{operand[2:]}u"
    if re.fullmatch(r"0d[0-9A-F]{16}", operand):
        return f"0x{operand[2:]}ull"
    if re.fullmatch(r"-?\d+", operand):
        return operand
    if operand == "shared":  # where the only array of shared memory begins
        return "0u"
    sys.exit(f"ptx_to_cpp.py: unknown operand {operand}")


def address_to_cpp(address, parameters):
    base, _, offset = address.partition("+")
    if base in parameters:
        return f"parameter(arguments[{parameters.index(base)}], {offset or 0})"
    return f"{operand_to_cpp(base, parameters)} + ({offset or 0})"


def statement_to_cpp(statement, parameters):
    predicate = re.match(r"@(!?)%(p\d+)\s+", statement)
    guard = f"if ({predicate[1]}{predicate[2]}) " if predicate else ""
    opcode, _, rest = statement[predicate.end() if predicate else 0:].partition(" ")
    operands = split_operands(rest)
    if opcode in ("bra", "bra.uni"):
        return f"{guard}goto {operands[0].replace('$', '')};"
    if opcode == "ret":
        return f"{guard}return;"
    parts = opcode.split(".")
    types = ["ptx::" + part for part in parts if TYPE.fullmatch(part)]  # %f32 is a register
    name = "_".join(part.replace("::", "_") for part in parts if not TYPE.fullmatch(part))
    name = {"and": "and_", "or": "or_", "xor": "xor_", "not": "not_", "div": "div_"}.get(name, name)
    arguments = ", ".join(operand_to_cpp(operand, parameters) for operand in operands)
    return f"{guard}{name}{'<' + ', '.join(types) + '>' if types else ''}({arguments});"


def kernel_to_cpp(name, parameter_text, body):
    parameters = re.findall(rf"{name}_param_\d+", parameter_text)
    lines = [f"void {name}_of_ptx([[maybe_unused]] void* const* arguments) {{"]
    for kind, letters, count in re.findall(r"\.reg \.(\w+)\s+%(\w+)<(\d+)>;", body):
        names = ", ".join(f"{letters}{number} = 0" for number in range(int(count)))
        lines.append(f"  {REGISTER_TYPES[kind]} {names};")
    body = re.sub(r"\.(?:reg|pragma|loc)\b[^;\n]*;?", "", body)
    body = re.sub(r"^(\$\w+):", r"\1:;", body, flags=re.MULTILINE)
    for statement in filter(None, (" ".join(text.split()) for text in body.split(";"))):
        label = re.fullmatch(r"\$(\w+):", statement)
        lines.append(f"{label[1]}:;" if label else f"  {statement_to_cpp(statement, parameters)}")
    return "\n".join([*lines, "}"])


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    source, target, table = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        ptx = re.sub(r"//[^\n]*", "", file.read())
    kernels = ENTRY.findall(ptx)
    if len(kernels) != ptx.count(".entry") or re.search(r"\.func|\.local|\.const\b|^\.global", ptx, re.MULTILINE):
        sys.exit(f"ptx_to_cpp.py: {source} has something else than kernels with dynamic shared memory")
    declarations = "\n".join(f'extern "C" void {name}();' for name, *_ in kernels)
    entries = ",\n".join(f"    {{{name}, {name}_of_ptx, {'true' if 'fma.' in body else 'false'}}}" for name, _, body in kernels)
    with open(target, "w", encoding="utf-8") as file:
        file.write('#include "ptx_instructions.hpp"\n#include "ptx_kernels.hpp"\n\n' + declarations)
        file.write("\n\nnamespace fake_gpu {\nnamespace {\n\nusing namespace ptx;\n\n")
        file.write("\n\n".join(kernel_to_cpp(*kernel) for kernel in kernels))
        file.write(f"\n\n}}  // namespace\n\nconst std::vector<PtxKernel> {table}{{\n{entries}}};\n\n}}  // namespace fake_gpu\n")


if __name__ == "__main__":
    main()
