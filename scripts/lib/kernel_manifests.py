"""Manifests of kernels (proto/gpueta/v1/kernel_manifest.proto) from what compilers
and profilers leave. Each function here reads one kind of thing; scripts/kernel_manifest
is the command."""

import csv
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path


class Problem(Exception):
    """What the user has to give or mend."""


@dataclass
class Argument:
    """A parameter: of `kind` pointer, int32, int64, float32, float64 or zeros."""
    name: str
    kind: str
    value: str = ""  # an expression: of a pointer the bytes of its buffer
    type: str = ""   # of what a pointer points at, as Triton writes it
    multiple_of: int = 1


@dataclass
class Manifest:
    name: str
    dtype: str
    dims: dict = field(default_factory=dict)         # name: (low, high, multiple) or [values]
    definitions: dict = field(default_factory=dict)  # name: expression
    grid: list = field(default_factory=lambda: ["1"])
    block: list = field(default_factory=lambda: ["1"])
    shared_bytes: int = 0
    file: str = ""
    entry: str = ""
    arguments: list = field(default_factory=list)
    flops: str = ""
    bytes: str = ""
    computes: str = ""  # text of the message
    comments: list = field(default_factory=list)

    def text(self):
        quote = json.dumps
        lines = [f"# {line}" for line in ["proto-file: gpueta/v1/kernel_manifest.proto",
                                          "proto-message: gpueta.v1.KernelManifest", *self.comments]]
        lines.append(f"name: {quote(self.name)}")
        if self.file:
            lines += [f"file: {quote(self.file)}", f"entry: {quote(self.entry)}"]
        lines.append(f"dtype: DTYPE_{self.dtype.upper()}")
        for name, values in self.dims.items():
            if isinstance(values, list):
                lines.append(f"dims {{ name: {quote(name)} values: {values} }}")
            else:
                low, high, multiple = values
                multiple = f" multiple_of: {multiple}" if multiple > 1 else ""
                lines.append(f"dims {{ name: {quote(name)} low: {low} high: {high}{multiple} }}")
        lines += [f"definitions {{ name: {quote(name)} value: {quote(value)} }}"
                  for name, value in self.definitions.items()]
        for message, extent in (("grid", self.grid), ("block", self.block)):
            axes = " ".join(f"{axis}: {quote(str(value))}" for axis, value in zip("xyz", extent))
            lines.append(f"{message} {{ {axes} }}")
        if self.shared_bytes:
            lines.append(f'shared_bytes: "{self.shared_bytes}"')
        for argument in self.arguments:
            value = {"pointer": f"buffer {{ bytes: {quote(argument.value)} }}", "zeros": f"zero_bytes: {argument.value}",
                     "float32": f"float32: {argument.value}", "float64": f"float64: {argument.value}"}.get(
                         argument.kind, f"{argument.kind}: {quote(argument.value)}")
            lines.append(f"arguments {{ name: {quote(argument.name)} {value} }}")
        for name in ("flops", "bytes"):
            if getattr(self, name):
                lines.append(f"{name}: {quote(getattr(self, name))}")
        if self.computes:
            lines.append(f"computes {{ {self.computes} }}")
        return "\n".join(lines) + "\n"


def computes(dtype, work, **dims):
    """The message of an operator whose dims are expressions."""
    entries = " ".join(f'symbolic_dims {{ key: "{name}" value: "{value}" }}' for name, value in dims.items())
    return f"kernel {{ dtype: DTYPE_{dtype.upper()} {work} }} {entries}"


# --- Triton -----------------------------------------------------------------------------------------------------------

TRITON_TYPES = {"f64": "fp64", "f32": "fp32", "f16": "fp16", "bf16": "bf16", "f8E4M3FN": "fp8", "f8E5M2": "fp8",
                "i8": "int8", "i16": "fp16", "i32": "fp32", "i64": "fp64"}
SCALARS = {"i1": "int32", "i8": "int32", "i16": "int32", "i32": "int32", "i64": "int64", "f32": "float32",
           "f64": "float64"}


def triton_entries(cache, kernel=""):
    """The compiled kernels of a cache: paths of their metadata (NAME.json beside NAME.cubin and NAME.ptx)."""
    found = []
    for path in sorted(Path(cache).rglob("*.json")):
        if path.name.startswith("__grp__") or (kernel and path.stem != kernel):
            continue
        if any(path.with_suffix(suffix).exists() for suffix in (".cubin", ".ptx")):
            found.append(path)
    return found


def triton_arguments(ttir):
    """Parameters by Triton's first intermediate form, which keeps names and types."""
    signature = re.search(r"tt\.func public @[\w.$]+\((.*?)\)\s*(?:attributes|\{)", ttir, re.S)
    if not signature:
        raise Problem("the .ttir file has no public function")
    arguments = []
    for piece in re.split(r",\s*(?=%)", signature[1]):
        match = re.match(r"\s*%(\w+): (!tt\.\w+<(?:[^<>]|<[^<>]*>)*>|\w+)(.*)", piece, re.S)
        if not match:
            continue
        name, kind, rest = match.groups()
        located = re.search(r'loc\("(\w+)"', rest)
        divisibility = re.search(r"tt\.divisibility = (\d+)", rest)
        pointer = re.match(r"!tt\.ptr<(.*?)(?:, \d+)?>$", kind)
        if "tensordesc" in kind or "nv_tma_desc" in rest:
            raise Problem(f"{name} is a tensor descriptor, which a manifest cannot describe")
        if not pointer and kind not in SCALARS:
            raise Problem(f"{name} is of type {kind}, which a manifest cannot describe")
        arguments.append(Argument(located[1] if located else name, "pointer" if pointer else SCALARS[kind],
                                  type=pointer[1] if pointer else kind,
                                  multiple_of=int(divisibility[1]) if divisibility and not pointer else 1))
    return arguments


def ptx_parameters(ptx, entry):
    """Bytes of each parameter of an entry."""
    match = re.search(r"\.entry\s+" + re.escape(entry) + r"\s*\((.*?)\)", ptx, re.S)
    if not match:
        raise Problem(f"the PTX has no kernel {entry}")
    sizes = []
    for parameter in filter(str.strip, match[1].split(",")):
        bits = re.search(r"\.[a-z]+(8|16|32|64)\b", parameter)
        count = re.search(r"\[(\d+)\]", parameter)
        if not bits:
            raise Problem(f"the parameter {parameter.strip()} is of no known type")
        sizes.append(int(bits[1]) // 8 * (int(count[1]) if count else 1))
    return sizes


def triton_manifest(metadata_path, given):
    """The manifest of one compiled kernel. What a cache does not know, the grid, the sizes of buffers and the work,
    is in `given` (see `Given`). Returns it and the file with the code, to be put beside it."""
    metadata_path = Path(metadata_path)
    metadata = json.loads(metadata_path.read_text())
    target = metadata.get("target", {})
    if isinstance(target, dict) and target.get("backend", "cuda") != "cuda":
        raise Problem(f"{metadata_path}: is of {target['backend']}, not of CUDA")
    clusters = metadata.get("cluster_dims") or [1, 1, 1]
    if metadata.get("num_ctas", 1) != 1 or math.prod(clusters) != 1:
        raise Problem(f"{metadata_path}: runs in clusters of blocks, which a manifest cannot describe")
    entry = metadata.get("name", metadata_path.stem)
    ttir = metadata_path.with_suffix(".ttir")
    if not ttir.exists():
        raise Problem(f"{ttir}: is missing; it says what the parameters are")
    arguments = triton_arguments(ttir.read_text())
    given.rename(arguments)
    code = metadata_path.with_suffix("." + given.code)
    if not code.exists():
        raise Problem(f"{code}: is missing")
    arguments += triton_scratch(metadata, metadata_path.with_suffix(".ptx"), entry, arguments, given)
    threads = metadata["num_warps"] * (target.get("warp_size", 32) if isinstance(target, dict) else 32)
    pointers = [argument for argument in arguments if argument.kind == "pointer" and argument.type in TRITON_TYPES]
    dtype = given.dtype or (TRITON_TYPES[pointers[0].type] if pointers else "fp32")
    manifest = Manifest(given.name or entry, dtype, dict(given.dims), dict(given.definitions), given.grid,
                        [str(threads)], metadata.get("shared", 0), code.name, entry, arguments, given.flops,
                        given.bytes, comments=[f"compiled by Triton {metadata.get('triton_version', '')}".rstrip()])
    given.fill(manifest)
    return manifest, code


def triton_scratch(metadata, ptx_path, entry, arguments, given):
    """What Triton adds after the kernel's own parameters: pointers to scratch memory, null where there is none."""
    sizes = [metadata[key] for key in ("global_scratch_size", "profile_scratch_size") if key in metadata]
    count = len(sizes)
    if ptx_path.exists():
        count = len(ptx_parameters(ptx_path.read_text(), entry)) - len(arguments)
        if count < 0:
            raise Problem(f"{ptx_path}: {entry} has {-count} parameters less than its .ttir file says")
    scratch = []
    for i in range(count):
        size = sizes[i] if i < len(sizes) else 0
        blocks = "*".join(f"({axis})" for axis in given.grid)
        scratch.append(Argument(f"scratch{i}", "pointer", f"{size}*{blocks}") if size else
                       Argument(f"scratch{i}", "zeros", "8"))
    return scratch


@dataclass
class Given:
    """What the user says."""
    dims: dict = field(default_factory=dict)
    definitions: dict = field(default_factory=dict)
    grid: list = field(default_factory=list)
    values: dict = field(default_factory=dict)  # of arguments: an expression, of a buffer its bytes
    flops: str = ""
    bytes: str = ""
    dtype: str = ""
    name: str = ""
    code: str = "ptx"
    parameters: list = field(default_factory=list)

    def rename(self, arguments):
        """Some versions of Triton keep no names of parameters."""
        if self.parameters and len(self.parameters) != len(arguments):
            raise Problem(f"--parameters names {len(self.parameters)}, but the kernel has {len(arguments)}: " +
                          ", ".join(f"{argument.name} ({argument.type})" for argument in arguments))
        for argument, name in zip(arguments, self.parameters):
            argument.name = name

    def fill(self, manifest):
        """Gives arguments their values. Raises with everything that is missing, and unknown, at once."""
        missing, known = [], {argument.name for argument in manifest.arguments}
        for argument in manifest.arguments:
            # A scalar that is called as a dim is the dim.
            own = argument.name if argument.kind != "pointer" and argument.name in self.dims else ""
            argument.value = argument.value or self.values.get(argument.name, own)
            if not argument.value:
                what = f"buffer of {argument.type}, BYTES" if argument.kind == "pointer" else argument.kind
                missing.append(f"--value {argument.name}=({what})")
            self.keep_multiple(manifest, argument)
        missing += [f"--{name}" for name in ("grid", "flops", "bytes") if not getattr(self, name)]
        unknown = [name for name in self.values if name not in known]
        if missing:
            raise Problem(f"{manifest.name} needs more than its cache says: {' '.join(missing)}")
        if unknown:
            raise Problem(f"{manifest.name} has no parameter {', '.join(unknown)}; it has {', '.join(sorted(known))}")

    @staticmethod
    def keep_multiple(manifest, argument):
        """Triton compiles for scalars that are multiples of 16 on their own; others must not run it."""
        dim = manifest.dims.get(argument.value)
        if argument.multiple_of > 1 and isinstance(dim, tuple):
            low, high, multiple = dim
            manifest.dims[argument.value] = (low, high, math.lcm(multiple, argument.multiple_of))


# --- CUTLASS ----------------------------------------------------------------------------------------------------------

CUTLASS_TYPES = {"f64": "fp64", "f32": "fp32", "tf32": "tf32", "f16": "fp16", "bf16": "bf16", "e4m3": "fp8",
                 "e5m2": "fp8", "s8": "int8", "u8": "int8"}
LARGEST_DIM = 16384


def cutlass_manifests(report):
    """From a report of cutlass_profiler (--output=R.csv): for each kernel that ran its manifest and the rows m, n, k,
    latency_us. The parameters of CUTLASS's kernels are structures that only its own host code can fill: the manifests
    describe kernels, and the profiler is what measures them. Returns them and the number of rows left out: other
    operations, failed ones, batches, split-K."""
    kernels, left_out = {}, 0
    with open(report, newline="") as file:
        rows = csv.DictReader(file)
        wanted = {"OperationKind", "Operation", "Status", "m", "n", "k", "A", "cta_m", "cta_n", "cta_k", "Runtime"}
        if absent := wanted - set(rows.fieldnames or []):
            raise Problem(f"{report}: is no report of cutlass_profiler on GEMMs; it lacks {', '.join(sorted(absent))}")
        for row in rows:
            plain = (row["OperationKind"] == "gemm" and row["Status"] == "success" and
                     row.get("split_k_slices", "1") in ("", "1") and row.get("batch_count", "1") in ("", "1"))
            dtype = "tf32" if "tf32" in row["Operation"] else CUTLASS_TYPES.get(row["A"].split(":")[0])
            if not plain or dtype is None or not float(row["Runtime"]) > 0:
                left_out += 1
                continue
            name = row["Operation"]
            if name not in kernels:
                kernels[name] = (cutlass_manifest(name, dtype, row), [])
            microseconds = float(row["Runtime"]) * 1000  # it reports milliseconds
            kernels[name][1].append((int(row["m"]), int(row["n"]), int(row["k"]), f"{microseconds:.6g}"))
    return list(kernels.values()), left_out


def cutlass_manifest(name, dtype, row):
    warps = math.prod(int(row.get(f"warps_{axis}") or 1) for axis in "mnk")
    return Manifest(
        name, dtype, {dim: (1, LARGEST_DIM, 1) for dim in "mnk"},
        {"tile_m": row["cta_m"], "tile_n": row["cta_n"], "tile_k": row["cta_k"]},
        ["ceildiv(m, tile_m)", "ceildiv(n, tile_n)"], [str(32 * warps)],
        flops="2*tile_m*ceildiv(m, tile_m)*tile_n*ceildiv(n, tile_n)*tile_k*ceildiv(k, tile_k)",
        computes=computes(dtype, "gemm {}", m="m", n="n", k="k"),
        comments=["of CUTLASS; measured by its profiler. Persistent kernels take the tiles of this grid in turn."])


# --- FlashAttention ---------------------------------------------------------------------------------------------------

# FlashAttention-2's flash_fwd_kernel<Flash_fwd_kernel_traits<head_dim, block_m, block_n, warps, bool, bool, type, …>,
# Is_dropout, Is_causal, Is_local, Has_alibi, …>, as compilers mangle it.
FLASH = re.compile(rb"flash_fwd_kernelI\d+Flash_fwd_kernel_traitsILi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)E"
                   rb"[\w]*?N7cutlass(?:6(half)|10(bfloat16))_tE[\w]*?EE(Lb[01]E)(Lb[01]E)(Lb[01]E)(Lb[01]E)")


def flash_manifests(build):
    """From a build of FlashAttention-2 (the extension module, or what nm prints of it): manifests of the forward
    kernels of causal and of full self-attention in it, without dropout, window and ALiBi. Their parameter is a
    structure that only the library's own code can fill: they describe kernels, to be measured by the library's own
    benchmark or in a trace."""
    manifests = {}
    for match in FLASH.finditer(Path(build).read_bytes()):
        head_dim, block_m, block_n, warps = (int(group) for group in match.groups()[:4])
        dtype = "fp16" if match[5] else "bf16"
        dropout, causal, local, alibi = (flag == b"Lb1E" for flag in match.groups()[6:])
        if dropout or local or alibi:
            continue
        name = f"flash_fwd_d{head_dim}_{block_m}x{block_n}_{dtype}{'_causal' if causal else ''}"
        flag = " causal: true" if causal else ""
        manifests[name] = Manifest(
            name, dtype, {"batch": (1, 256, 1), "kv_heads": [1, 2, 4, 8, 16, 32], "group": [1, 2, 4, 8],
                          "length": (16, 32768, 1)},
            {"heads": "kv_heads*group"}, [f"ceildiv(length, {block_m})", "batch", "heads"], [str(32 * warps)],
            computes=computes(dtype, f"attention {{ phase: PHASE_PREFILL head_dim: {head_dim}{flag} }}",
                              batch="batch", query_len="length", kv_len="length", heads="heads", kv_heads="kv_heads"),
            comments=["of FlashAttention-2, by the names of kernels in a build"])
    return [manifests[name] for name in sorted(manifests)]
