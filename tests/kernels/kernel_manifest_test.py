"""scripts/kernel_manifest on what compilers and profilers leave: the manifests it writes are read by gpueta.

  kernel_manifest_test.py GPUETA    (the binary; from the repository's root)
"""
import csv
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

GPUETA = sys.argv.pop(1) if len(sys.argv) > 1 else "gpueta"
FIXTURES = Path("tests/kernels/fixtures")
TRITON = ["triton", FIXTURES / "triton_cache", "--parameters", "x,y,out,n,scale", "--dim", "n=1000:1000000", "--grid",
          "ceildiv(n, 1024)", "--value", "x=4*n", "--value", "y=4*n", "--value", "out=4*n", "--value", "scale=0.5",
          "--flops", "2*n", "--bytes", "12*n"]


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


class KernelManifestTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def write(self, *arguments):
        return run("scripts/kernel_manifest", *arguments, "--out", self.out)

    def check(self, manifest, *shape):
        checked = run(GPUETA, "kernels", "check", self.out / manifest, *shape, "--json")
        self.assertEqual(checked.returncode, 0, checked.stderr)
        return json.loads(checked.stdout)

    def test_a_triton_kernel_has_what_its_cache_and_the_user_say(self):
        written = self.write(*TRITON)
        self.assertEqual(written.returncode, 0, written.stderr)
        kernel = self.check("scale_add.manifest", "n=2064")
        self.assertEqual(kernel["dtype"], "fp32")
        self.assertEqual(kernel["grid"], [3, 1, 1])
        self.assertEqual(kernel["block"], [256, 1, 1])  # 8 warps
        self.assertEqual(kernel["shared_bytes"], 4096)
        self.assertEqual(kernel["flops"], 4128)
        # The kernel's own and the pointer that Triton adds; the PTX agrees.
        self.assertEqual([argument["bytes"] for argument in kernel["arguments"]], [8, 8, 8, 4, 4, 8])
        self.assertIn("scale_add takes these 6 arguments", kernel["code"])

    def test_a_length_that_triton_specialised_keeps_its_multiple(self):
        self.write(*TRITON)
        refused = run(GPUETA, "kernels", "check", self.out / "scale_add.manifest", "n=1000")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("n: is 1000, but the kernel needs a multiple of 16", refused.stderr)

    def test_all_that_is_missing_is_said_at_once(self):
        refused = self.write("triton", FIXTURES / "triton_cache", "--parameters", "x,y,out,n,scale", "--dim", "n=1:9")
        self.assertEqual(refused.returncode, 1)
        for missing in ("--value x=(buffer of f32, BYTES)", "--value scale=(float32)", "--grid", "--flops", "--bytes"):
            self.assertIn(missing, refused.stderr)
        self.assertNotIn("--value n=", refused.stderr)  # it is a dim

    def test_mistakes_are_named(self):
        for arguments, message in (
                ((*TRITON, "--value", "z=1"), "scale_add has no parameter z; it has"),
                ((*TRITON, "--parameters", "x,y"), "--parameters names 2, but the kernel has 5: arg0 (f32)"),
                (("triton", self.out), "has no compiled kernel"),
                (("triton", FIXTURES / "triton_cache", "--kernel", "other"), "has no compiled kernel other"),
                (("cutlass", FIXTURES / "README.md"), "is no report of cutlass_profiler on GEMMs; it lacks A, "),
                (("flash", FIXTURES / "README.md"), "holds no name of a forward kernel")):
            refused = self.write(*arguments)
            self.assertEqual(refused.returncode, 1, message)
            self.assertIn(message, refused.stderr)
            self.assertNotIn("Traceback", refused.stderr)

    def test_cutlass_reports_become_manifests_and_rows(self):
        written = self.write("cutlass", FIXTURES / "made_cutlass_report.csv")
        self.assertEqual(written.returncode, 0, written.stderr)
        self.assertIn("2 rows left out", written.stderr)  # split-K, failed
        name = "cutlass_simt_sgemm_128x128_8x2_nn_align1"
        kernel = self.check(name + ".manifest", "m=100", "n=512", "k=2048")
        self.assertEqual(kernel["grid"], [1, 4, 1])
        self.assertEqual(kernel["flops"], 2 * 128 * 512 * 2048)  # padded to the tile
        self.assertEqual(kernel["bytes"], 4 * (100 * 2048 + 2048 * 512 + 100 * 512))
        rows = self.out / "rows.csv"
        made = run(GPUETA, "kernels", "rows", self.out / (name + ".manifest"), self.out / (name + ".csv"), "--device",
                   "v100-pcie-32gb", "--out", rows)
        self.assertEqual(made.returncode, 0, made.stderr)
        with open(rows, newline="") as file:
            latencies = [(row["name"], row["latency_us"]) for row in csv.DictReader(file)]
        self.assertEqual(latencies, [(name, "250"), (name, "125")])

    def test_a_build_of_flash_attention_names_its_kernels(self):
        written = self.write("flash", FIXTURES / "made_flash_symbols.txt")
        self.assertEqual(written.returncode, 0, written.stderr)
        self.assertEqual(sorted(path.name for path in self.out.glob("*.manifest")),
                         ["flash_fwd_d128_128x64_bf16_causal.manifest", "flash_fwd_d64_128x128_fp16.manifest"])
        kernel = self.check("flash_fwd_d128_128x64_bf16_causal.manifest", "batch=2", "kv_heads=8", "group=4",
                            "length=1000")
        self.assertEqual(kernel["grid"], [8, 2, 32])
        self.assertEqual(kernel["block"], [128, 1, 1])
        self.assertEqual(kernel["flops"], 4 * 2 * 32 * 128 * 1000 * 1001 // 2)
        self.assertIn("it can be described, but not run", kernel["code"])


if __name__ == "__main__":
    unittest.main()
