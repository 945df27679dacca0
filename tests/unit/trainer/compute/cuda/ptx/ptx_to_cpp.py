#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns nvcc's PTX into C++ for the fake GPU.

ptx_to_cpp.py PTX CPP TABLE

Each instruction becomes a call of the function of its name in ptx_instructions.hpp: fma.rn.f32 of `fma_rn<f32>`, ld.global.v4.u32 of
`ld_global_v4<u32>`. Registers are integers that hold bits. What is not known here ends the translation with one line, and CPP is not
written. TABLE is the name of the array of kernels that CPP defines.
"""
import re
import sys

REGISTER_TYPES = {"pred": "bool", "b16": "u16", "b32": "u32", "b64": "u64", "f32": "u32", "f64": "u64"}
TYPE = re.compile(r"u8|[usb](?:16|32|64)|bf16|f32|f64|pred")
SPECIAL = {"tid": "threadIdx", "ntid": "blockDim", "ctaid": "blockIdx", "nctaid": "gridDim"}
# What ptx_instructions.hpp has functions for, without types.
INSTRUCTIONS = set("""
    abs add add.rn and bar.sync bar.warp.sync bfi cp.async.cg.shared.global cp.async.commit_group cp.async.wait_group cvt cvt.rn
    cvt.rn.bf16x2 cvta.to.global div div.rn ex2.approx.ftz fma.rn ld.global ld.global.v2 ld.global.v4 ld.param ld.shared ld.shared.v2
    ld.shared.v4 ldmatrix.sync.aligned.m8n8.x4.shared ldmatrix.sync.aligned.m8n8.x4.trans.shared mad.lo max min
    mma.sync.aligned.m16n8k16.row.col mov mul mul.hi mul.lo mul.rn mul.wide neg not or prmt rcp.rn rem selp setp.eq setp.equ setp.ge setp.geu
    setp.gt setp.gtu setp.le setp.leu setp.lt setp.ltu setp.ne setp.neu shfl.sync.bfly shfl.sync.idx shl shr sqrt.rn st.global
    st.global.v2 st.global.v4 st.shared st.shared.v2 st.shared.v4 sub sub.rn xor
    """.split())
ENTRY = re.compile(r"\.visible \.entry (\w+)\((.*?)\)[^{]*\{(.*?)^\}", re.DOTALL | re.MULTILINE)


class UnknownPtx(Exception):
    """Something that this program cannot translate."""


def split_operands(text):
    """The operands between commas that no brace encloses."""
    return [operand.strip() for operand in re.split(r",(?![^{]*\})", text)] if text.strip() else []


def operand_to_cpp(operand, parameters):
    if operand.startswith("{"):
        return "std::tie(%s)" % ", ".join(operand_to_cpp(part, parameters) for part in split_operands(operand[1:-1]))
    if operand.startswith("["):
        return address_to_cpp(operand[1:-1].strip(), parameters)
    if "|" in operand:  # a second result, which check_second_results() refuses if it is used
        return operand_to_cpp(operand.partition("|")[0], parameters)
    special = re.fullmatch(r"%(\w+)\.([xyz])", operand)
    if special and special[1] in SPECIAL:
        return f"{SPECIAL[special[1]]}.{special[2]}"
    if re.fullmatch(r"%[a-z]+\d+", operand):
        return operand[1:]
    if re.fullmatch(r"0f[0-9A-F]{8}", operand):
        return f"0x{operand[2:]}u"
    if re.fullmatch(r"0d[0-9A-F]{16}", operand):
        return f"0x{operand[2:]}ull"
    if re.fullmatch(r"-?\d+", operand):
        return operand
    if operand == "shared":  # where the only array of shared memory begins
        return "0u"
    raise UnknownPtx(f"unknown operand {operand}")


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
    instruction = ".".join(part for part in parts if not TYPE.fullmatch(part))
    if instruction not in INSTRUCTIONS:
        raise UnknownPtx(f"unknown instruction {opcode}")
    name = instruction.replace(".", "_")
    name = {"and": "and_", "or": "or_", "xor": "xor_", "not": "not_", "div": "div_"}.get(name, name)
    arguments = ", ".join(operand_to_cpp(operand, parameters) for operand in operands)
    return f"{guard}{name}{'<' + ', '.join(types) + '>' if types else ''}({arguments});"


def check_second_results(body):
    """No function has a second result."""
    for register in re.findall(r"\|(%\w+)", body):
        if len(re.findall(rf"{register}\b", body)) > 1:
            raise UnknownPtx(f"{register}, the second result of an instruction, is used")


def kernel_to_cpp(name, parameter_text, body):
    check_second_results(body)
    parameters = re.findall(rf"{name}_param_\d+", parameter_text)
    lines = [f"void {name}_of_ptx([[maybe_unused]] void* const* arguments) {{"]
    for kind, letters, count in re.findall(r"\.reg \.(\w+)\s+%(\w+)<(\d+)>;", body):
        if kind not in REGISTER_TYPES:
            raise UnknownPtx(f"unknown registers .{kind}")
        names = ", ".join(f"{letters}{number} = 0" for number in range(int(count)))
        lines.append(f"  {REGISTER_TYPES[kind]} {names};")
    body = re.sub(r"\.(?:reg|pragma|loc)\b[^;\n]*;?", "", body)
    body = re.sub(r"^(\$\w+):", r"\1:;", body, flags=re.MULTILINE)
    for statement in filter(None, (" ".join(text.split()) for text in body.split(";"))):
        label = re.fullmatch(r"\$(\w+):", statement)
        lines.append(f"{label[1]}:;" if label else f"  {statement_to_cpp(statement, parameters)}")
    return "\n".join([*lines, "}"])


def to_cpp(ptx, table):
    """The text of the C++ file."""
    kernels = ENTRY.findall(ptx)
    if len(kernels) != ptx.count(".entry") or re.search(r"\.func|\.local|\.const\b|^\.global", ptx, re.MULTILINE):
        raise UnknownPtx("something else than kernels with dynamic shared memory")
    folder = "trainer/compute/cuda/ptx"
    parts = [f'#include "{folder}/ptx_instructions.hpp"\n#include "{folder}/ptx_kernels.hpp"']
    parts.append("\n".join(f'extern "C" void {name}();' for name, *_ in kernels))
    parts.append("namespace fake_gpu {\nnamespace {\n\nusing namespace ptx;")
    for name, parameter_text, body in kernels:
        try:
            parts.append(kernel_to_cpp(name, parameter_text, body))
        except UnknownPtx as error:
            raise UnknownPtx(f"{name}: {error}") from error
    entries = ",\n".join(f"    {{{name}, {name}_of_ptx, {'true' if 'fma.' in body else 'false'}}}" for name, _, body in kernels)
    parts.append(f"}}  // namespace\n\nconst std::vector<PtxKernel> {table}{{\n{entries}}};\n\n}}  // namespace fake_gpu\n")
    return "\n\n".join(parts)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    source, target, table = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        ptx = re.sub(r"//[^\n]*", "", file.read())
    try:
        cpp = to_cpp(ptx, table)
    except UnknownPtx as error:
        sys.exit(f"ptx_to_cpp.py: {source}: {error}")
    with open(target, "w", encoding="utf-8") as file:
        file.write(cpp)


if __name__ == "__main__":
    main()
