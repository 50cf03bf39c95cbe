"""The processors kernels are compiled for, and which of them this one is. Pure.

x86-64 comes in levels: a name for a set of instructions that processors have together. The code of
a level runs on every processor of that level or a higher one.
"""

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

# What the CRC steps of `source.words` are on a target. Both take and give 64 bits, whatever the
# instruction has; where there is none they are never called, as `has_crc` tells.
CRC_WORD: Final = "ledgerstone_target_crc_word"
CRC_BYTE: Final = "ledgerstone_target_crc_byte"
HAS_CRC: Final = "ledgerstone_target_has_crc"

_X86_CRC: Final = f"""
declare i64 @llvm.x86.sse42.crc32.64.64(i64, i64)
declare i32 @llvm.x86.sse42.crc32.32.8(i32, i8)
define i64 @{CRC_WORD}(i64 %crc, i64 %word) alwaysinline {{
  %next = call i64 @llvm.x86.sse42.crc32.64.64(i64 %crc, i64 %word)
  ret i64 %next
}}
define i64 @{CRC_BYTE}(i64 %crc, i64 %value) alwaysinline {{
  %register = trunc i64 %crc to i32
  %byte = trunc i64 %value to i8
  %next = call i32 @llvm.x86.sse42.crc32.32.8(i32 %register, i8 %byte)
  %wide = zext i32 %next to i64
  ret i64 %wide
}}
define i64 @{HAS_CRC}() alwaysinline {{
  ret i64 1
}}
"""

_ARM_CRC: Final = f"""
declare i32 @llvm.aarch64.crc32cx(i32, i64)
declare i32 @llvm.aarch64.crc32cb(i32, i32)
define i64 @{CRC_WORD}(i64 %crc, i64 %word) alwaysinline {{
  %register = trunc i64 %crc to i32
  %next = call i32 @llvm.aarch64.crc32cx(i32 %register, i64 %word)
  %wide = zext i32 %next to i64
  ret i64 %wide
}}
define i64 @{CRC_BYTE}(i64 %crc, i64 %value) alwaysinline {{
  %register = trunc i64 %crc to i32
  %byte = trunc i64 %value to i32
  %next = call i32 @llvm.aarch64.crc32cb(i32 %register, i32 %byte)
  %wide = zext i32 %next to i64
  ret i64 %wide
}}
define i64 @{HAS_CRC}() alwaysinline {{
  ret i64 1
}}
"""

_NO_CRC: Final = f"""
define i64 @{CRC_WORD}(i64 %crc, i64 %word) alwaysinline {{
  ret i64 %crc
}}
define i64 @{CRC_BYTE}(i64 %crc, i64 %value) alwaysinline {{
  ret i64 %crc
}}
define i64 @{HAS_CRC}() alwaysinline {{
  ret i64 0
}}
"""


class CompileTarget(NamedTuple):
    """`name` is part of the library's file name; None for `triple` is the machine's own."""

    name: str
    triple: str | None
    cpu: str
    features: str
    crc: str  # LLVM assembly


X86_64_V2: Final = CompileTarget("x86-64-v2", "x86_64-unknown-linux-gnu", "x86-64-v2", "", _X86_CRC)
X86_64_V3: Final = CompileTarget("x86-64-v3", "x86_64-unknown-linux-gnu", "x86-64-v3", "", _X86_CRC)
AARCH64: Final = CompileTarget("aarch64", "aarch64-unknown-linux-gnu", "generic", "+crc", _ARM_CRC)
# A processor of another kind, or an old one: what every machine of its family can run.
ANY: Final = CompileTarget("any", None, "", "", _NO_CRC)
TARGETS: Final = {each.name: each for each in (X86_64_V2, X86_64_V3, AARCH64, ANY)}

# As the Linux kernel spells them; `abm` is lzcnt, `pni` is SSE3.
_V2_FLAGS: Final = ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3")
_V3_FLAGS: Final = (*_V2_FLAGS, "abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe")

_HWCAP_CRC32: Final = 1 << 7


def target_of(machine: str, flags: Callable[[], Collection[str]]) -> CompileTarget:
    """The best one for a machine of this kind; `flags` are asked for where they decide."""
    if machine in ("x86_64", "AMD64"):
        found = flags()
        if all(flag in found for flag in _V3_FLAGS):
            return X86_64_V3
        if all(flag in found for flag in _V2_FLAGS):
            return X86_64_V2
    elif machine in ("aarch64", "arm64") and "crc32" in flags():
        return AARCH64
    return ANY


def arm_flags(hwcap: int) -> frozenset[str]:
    """What Linux tells an ARM process about its processor, AT_HWCAP, by the names of cpuinfo."""
    return frozenset({"crc32"} if hwcap & _HWCAP_CRC32 else ())


def cpu_flags(cpuinfo: str) -> frozenset[str]:
    """Of the first processor in the text of an x86's /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        name, _, words = line.partition(":")
        if name.strip() == "flags":
            return frozenset(words.split())
    return frozenset()
