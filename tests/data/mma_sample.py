"""Writes mma_sample.txt: random dot products through MMA-Sim. `pip install mmasim==2.1.1`, then `python mma_sample.py`."""
import random
from pathlib import Path

import torch
from mmasim.nv_ptx.sim import MMA, WGMMA, MMABlockScale

SEED, ROWS = 20261201, 20
FP8, FP6, FP4 = ["e5m2", "e4m3"], ["e3m2", "e2m3"], ["e2m1"]
# width, exponent bits, fraction bits
FORMAT = {"f32": (32, 8, 23), "tf32": (32, 8, 23), "bf16": (16, 8, 7), "f16": (16, 5, 10), "e4m3": (8, 4, 3),
          "e5m2": (8, 5, 2), "e3m2": (6, 3, 2), "e2m3": (6, 2, 3), "e2m1": (4, 2, 1)}
INT = {32: torch.int32, 16: torch.int16, 8: torch.uint8}
TORCH = {"f32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16,
         "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "ue4m3": torch.float8_e4m3fn,
         "ue8m0": torch.float8_e8m0fnu}


class TwoHalves:
    """FP8 `mma.sync` on Hopper as ptxas compiles it: two f16 instructions from zero, then an add to nearest even."""

    def __init__(self, k, d):
        self.k, self.mma = k, MMA("Hopper", f"m16n8k{k // 2}.{d}.f16.f16.{d}")

    def dpa(self, a, b, c):
        a, b, total = a.to(torch.float16), b.to(torch.float16), torch.zeros_like(c)
        for half in (0, 1):
            ks = [k for k in range(self.k) if k % 4 // 2 == half]
            total = self.mma.dpa(a[:, ks], b[:, ks], total)
        result = c + total
        nan = torch.tensor(0x7FFFFFFF if c.dtype == torch.float32 else 0x7FFF, dtype=INT[8 * c.itemsize])
        return torch.where(result.isnan(), nan.view(c.dtype), result)


def tensor(bits, name):
    if name in ("e3m2", "e2m3"):
        return torch.tensor(bits, dtype=torch.uint8)
    if name == "e2m1":  # FP4 sits in bits 5:2 of its byte
        return torch.tensor([x << 2 for x in bits], dtype=torch.uint8)
    width = 8 if name.startswith("u") else FORMAT[name][0]
    wrapped = [x - (1 << width) if width > 8 and x >> (width - 1) else x for x in bits]
    return torch.tensor(wrapped, dtype=INT[width]).view(TORCH[name])


def values(n, name, kind):
    width, exponent, fraction = FORMAT[name]
    if kind == "raw":
        return [random.getrandbits(width) for _ in range(n)]
    top = (1 << exponent) - 1
    center = random.randrange(1, top)
    spread = random.choice([1, 2, 6, 14]) if kind == "near" else 2
    field = lambda: min(max(center + random.randint(-spread, spread), 0), top - 1)
    word = lambda: random.getrandbits(1) << (width - 1) | field() << fraction | random.getrandbits(fraction)
    bits = [0 if random.random() < 0.12 else word() for _ in range(n)]
    if kind == "tiny":  # subnormals and zeros of either sign
        bits = [x & ~(top << fraction) for x in bits]
    return bits


def dot_operands(n, first, second):
    kind = random.choice(["raw", "near", "near", "near", "close", "close", "tiny"])
    a, b = values(n, first, kind), values(n, second, "near" if kind == "tiny" else kind)
    if random.random() < 0.25:  # the second half cancels the first
        sign = 1 << (FORMAT[second][0] - 1)
        a[n // 2:] = a[:n // 2]
        b[n // 2:] = [x ^ sign for x in b[:n // 2]]
        if random.random() < 0.7:
            b[random.randrange(n)] ^= 1
    return a, b


def accumulator(name, product):
    width, exponent, fraction = FORMAT[name]
    draw = random.random()
    if draw < 0.15:
        return 0
    if draw < 0.3:
        return random.getrandbits(width)
    if draw < 0.36:
        return random.choice([1 << (width - 1), 1, ((1 << exponent) - 1) << fraction, (1 << (width - 1)) + 3])
    # Near the product's exponent, where alignment shows.
    field = (product >> fraction & ((1 << exponent) - 1)) + random.randint(-14, 14)
    field = min(max(field, 0), (1 << exponent) - 2)
    return random.getrandbits(1) << (width - 1) | field << fraction | random.getrandbits(fraction)


def bits_of(result, name):
    return int(result.view(INT[FORMAT[name][0]]).reshape(-1)[0]) & ((1 << FORMAT[name][0]) - 1)


def rows(tag, model, first, second, c_type, scale=None):
    random.seed(f"{SEED} {tag}")
    for _ in range(ROWS):
        a, b = dot_operands(model.k, first, second)
        sa = sb = None
        if scale:
            n = model.k // model.block_size
            one = lambda: random.getrandbits(8) if random.random() < 0.05 else random.choice(
                [random.randint(0x68, 0x90), random.randint(0x78, 0x80)]) if scale == "ue8m0" else random.getrandbits(8)
            sa, sb = [one() for _ in range(n)], [one() for _ in range(n)]
        if model.k == 64 and n == 4 and random.random() < 0.5:
            # Two large groups cancel, two small ones lie around the end of the grid.
            a[32:48], b[32:48] = a[:16], [x ^ 8 for x in b[:16]]
            far = lambda low, high: random.randint(low, high)
            if scale == "ue8m0":
                sa, sb = [0x90, 0x90 - far(24, 44)] * 2, [0x80, 0x80 - far(0, 2)] * 2
            else:
                sa, sb = [far(0x78, 0x7E), far(1, 9)] * 2, [far(0x78, 0x7E), far(1, 9)] * 2
        if model.k == 64:
            pack = lambda x: torch.tensor([x[i] << 4 | x[i + 1] for i in range(0, 64, 2)], dtype=torch.uint8)
            x, y = pack(a), pack(b)
        else:
            x, y = tensor(a, first), tensor(b, second)

        def run(c):
            operands = [x[None], y[None], tensor([c], c_type)]
            operands += [tensor(sa, scale)[None], tensor(sb, scale)[None]] if scale else []
            return bits_of(model.dpa(*operands), c_type)

        c = accumulator(c_type, run(0))
        text = lambda xs: "-" if xs is None else ",".join(f"{x:x}" for x in xs)
        yield f"{tag} {text(a)} {text(b)} {c:x} {text(sa)} {text(sb)} {run(c):x}"


def tags():
    for name, arch in [("amp", "Ampere"), ("ada", "Ada Lovelace"), ("hop", "Hopper"), ("rtx", "RTX Blackwell")]:
        for k in (8, 16):
            for t, d in [("bf16", "f32"), ("f16", "f32"), ("f16", "f16")]:
                yield f"{name}{k}:{t}:{t}:{d}", MMA(arch, f"m16n8k{k}.{d}.{t}.{t}.{d}"), t, t, d
    for name, arch in [("amp", "Ampere"), ("hop", "Hopper")]:
        for k in (4, 8):
            yield f"{name}t{k}:tf32:tf32:f32", MMA(arch, f"m16n8k{k}.f32.tf32.tf32.f32"), "tf32", "tf32", "f32"
    for k in (16, 32):
        for d in ("f32", "f16"):
            for s in FP8:
                for t in FP8:
                    yield f"adaq{k}:{s}:{t}:{d}", MMA("Ada Lovelace", f"m16n8k{k}.{d}.{s}.{t}.{d}"), s, t, d
                    yield f"rtxq{k}:{s}:{t}:{d}", MMA("RTX Blackwell", f"m16n8k{k}.{d}.{s}.{t}.{d}"), s, t, d
                    yield f"hopq{k}:{s}:{t}:{d}", TwoHalves(k, d), s, t, d
                    if k == 32:
                        yield f"wgq32:{s}:{t}:{d}", WGMMA("Hopper", f"m64n8k32.{d}.{s}.{t}"), s, t, d
    for t, d in [("bf16", "f32"), ("f16", "f32"), ("f16", "f16")]:
        yield f"wg16:{t}:{t}:{d}", WGMMA("Hopper", f"m64n8k16.{d}.{t}.{t}"), t, t, d
    for s in FP8 + FP6 + FP4:
        for t in FP8 + FP6 + FP4:
            kind = f"m16n8k32.kind::f8f6f4.f32.{s}.{t}.f32"
            if s not in FP8 or t not in FP8:
                yield f"rtxq32:{s}:{t}:f32", MMA("RTX Blackwell", kind), s, t, "f32"
            kind = f"m16n8k32.kind::mxf8f6f4.block32.f32.{s}.{t}.f32.ue8m0"
            yield f"rtxmx32:{s}:{t}:f32", MMABlockScale("RTX Blackwell", kind), s, t, "f32", "ue8m0"
    for block, scale in [(16, "ue4m3"), (16, "ue8m0"), (32, "ue8m0")]:
        kind = f"m16n8k64.kind::mxf4nvf4.block{block}.f32.e2m1.e2m1.f32.{scale}"
        yield f"gst{block}:{scale}:e2m1:f32", MMABlockScale("RTX Blackwell", kind), "e2m1", "e2m1", "f32", scale


lines = [row for tag in tags() for row in rows(*tag)]
Path(__file__).with_name("mma_sample.txt").write_text("\n".join(lines) + "\n")
