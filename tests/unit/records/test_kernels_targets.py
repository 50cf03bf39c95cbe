"""Which library a processor gets."""

import pytest

from ledgerstone.records.kernels.targets import (
    AARCH64,
    ANY,
    X86_64_V2,
    X86_64_V3,
    CompileTarget,
    arm_flags,
    cpu_flags,
    target_of,
)

V2 = "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
V3 = f"{V2} abm avx avx2 bmi1 bmi2 f16c fma movbe"


@pytest.mark.parametrize(
    ("machine", "flags", "target"),
    [
        ("x86_64", V3, X86_64_V3),
        ("x86_64", f"fpu {V3} avx512f", X86_64_V3),
        ("x86_64", V3.replace(" avx2", ""), X86_64_V2),
        ("x86_64", V2, X86_64_V2),
        ("x86_64", V2.replace("sse4_2", ""), ANY),
        ("aarch64", "fp asimd crc32 atomics", AARCH64),
        ("aarch64", "fp asimd", ANY),
        ("riscv64", "", ANY),
    ],
)
def test_processor_gets_the_best_it_can_run(
    machine: str, flags: str, target: CompileTarget
) -> None:
    assert target_of(machine, lambda: flags.split()) is target


def test_flags_are_those_of_the_first_processor() -> None:
    text = "processor\t: 0\nmodel name\t: x\nflags\t\t: fpu avx2\n\nprocessor\t: 1\nflags\t: no\n"

    assert cpu_flags(text) == {"fpu", "avx2"}
    assert cpu_flags("") == frozenset()


def test_arm_processor_says_by_a_bit_whether_it_has_the_crc_instruction() -> None:
    assert target_of("aarch64", lambda: arm_flags(1 << 7 | 0b11)) is AARCH64
    assert target_of("aarch64", lambda: arm_flags(0b11)) is ANY
