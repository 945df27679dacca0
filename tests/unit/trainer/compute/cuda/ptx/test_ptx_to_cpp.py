#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of ptx_to_cpp.py: what it does not know ends it with one line, and it writes nothing."""
import os
import subprocess
import sys
import tempfile
import unittest

TRANSLATOR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ptx_to_cpp.py")


def kernel(body):
    return """.version 8.5
.target sm_80
.visible .entry scale(
	.param .u64 scale_param_0
)
{
	.reg .pred %%p<2>;
	.reg .b32 %%r<3>;
	.reg .f32 %%f<3>;
	.reg .b64 %%rd<2>;
	%s
	ret;
}
""" % body


class PtxToCpp(unittest.TestCase):
    def translate(self, ptx):
        """(exit code, standard error, the C++ or None)"""
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/in.ptx", "w", encoding="utf-8") as file:
                file.write(ptx)
            done = subprocess.run([sys.executable, TRANSLATOR, "in.ptx", "out.cpp", "table"], cwd=folder, stderr=subprocess.PIPE, text=True,
                                  check=False)
            if not os.path.exists(f"{folder}/out.cpp"):
                return done.returncode, done.stderr, None
            with open(f"{folder}/out.cpp", encoding="utf-8") as file:
                return done.returncode, done.stderr, file.read()

    def check_refused(self, ptx, reason):
        self.assertEqual(self.translate(ptx), (1, f"ptx_to_cpp.py: in.ptx: {reason}\n", None))

    def test_an_instruction_becomes_a_call(self):
        code, errors, cpp = self.translate(kernel("@%p1 fma.rn.f32 \t%f1, %f2, 0f3F800000, %f1;"))
        self.assertEqual((code, errors), (0, ""))
        self.assertIn("if (p1) fma_rn<ptx::f32>(f1, f2, 0x3F800000u, f1);", cpp)

    def test_an_unknown_instruction(self):
        for instruction in ("tanh.approx.f32 %f1, %f2", "add.ftz.f32 %f1, %f1, %f2", "add.f16 %r1, %r1, %r2", "trap",
                            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r2}, {%f2}"):
            opcode = instruction.partition(" ")[0]
            self.check_refused(kernel(f"{instruction};"), f"scale: unknown instruction {opcode}")
            self.check_refused(kernel(f"@!%p1 {instruction};"), f"scale: unknown instruction {opcode}")

    def test_an_unknown_operand(self):
        self.check_refused(kernel("mov.u32 %r1, %laneid;"), "scale: unknown operand %laneid")
        self.check_refused(kernel("mov.u32 %r1, %cluster_ctaid.x;"), "scale: unknown operand %cluster_ctaid.x")
        self.check_refused(kernel("ld.param.u64 %rd1, [other_param_0];"), "scale: unknown operand other_param_0")

    def test_a_second_result(self):
        shuffle = "shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;"
        self.assertEqual(self.translate(kernel(shuffle))[0], 0)
        self.check_refused(kernel(f"{shuffle} @%p1 ret;"), "scale: %p1, the second result of an instruction, is used")

    def test_something_else_than_kernels(self):
        reason = "something else than kernels with dynamic shared memory"
        self.check_refused(".func helper()\n{\n\tret;\n}\n", reason)
        self.check_refused(".global .align 4 .b8 table[16];\n" + kernel(""), reason)


if __name__ == "__main__":
    unittest.main()
