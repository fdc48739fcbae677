//! Units: what exists where, special values, refusals.

use vt_kernels::mma::{Accumulator, Evidence, Format, Instruction, Operand, Unit};
use vt_kernels::{Arch, Error};

const ARCHES: [Arch; 4] = [Arch::Sm80, Arch::Sm89, Arch::Sm90a, Arch::Sm121a];
const INSTRUCTIONS: [Instruction; 10] = [
    Instruction::MmaK8,
    Instruction::MmaK16,
    Instruction::MmaTf32K4,
    Instruction::MmaTf32K8,
    Instruction::MmaFp8K16,
    Instruction::MmaFp8K32,
    Instruction::MmaMxf8K32,
    Instruction::MmaFp4K64,
    Instruction::WgmmaK16,
    Instruction::WgmmaFp8K32,
];

fn bf16(unit: &Unit, a: &[(usize, u32)], b: u32, c: u32) -> u32 {
    let mut bits = [0; 16];
    for &(k, x) in a {
        bits[k] = x;
    }
    let operand = |bits| Operand { format: Format::Bf16, bits, scale: None };
    unit.dot(operand(&bits), operand(&[b; 16]), c).unwrap()
}

/// Only what ran on an H200 says so.
#[test]
fn measured_rows() {
    let pairs = ARCHES.iter().flat_map(|&arch| INSTRUCTIONS.map(|instruction| (arch, instruction)));
    let units = pairs.filter_map(|(arch, instruction)| Unit::new(arch, instruction, Accumulator::F32).ok());
    let measured: Vec<_> = units.filter(|unit| unit.evidence == Evidence::Measured).collect();
    let names: Vec<_> = measured.iter().map(|unit| (unit.arch, unit.instruction, unit.fraction)).collect();
    assert_eq!(
        names,
        [
            (Arch::Sm90a, Instruction::MmaK8, 25),
            (Arch::Sm90a, Instruction::MmaK16, 25),
            (Arch::Sm90a, Instruction::MmaTf32K4, 25),
            (Arch::Sm90a, Instruction::MmaTf32K8, 25),
            (Arch::Sm90a, Instruction::MmaFp8K16, 25),
            (Arch::Sm90a, Instruction::MmaFp8K32, 25),
            (Arch::Sm90a, Instruction::WgmmaK16, 25),
            (Arch::Sm90a, Instruction::WgmmaFp8K32, 13),
        ]
    );
}

#[test]
fn instructions_that_a_chip_lacks() {
    for (arch, instruction, accumulator) in [
        (Arch::Sm80, Instruction::MmaFp8K32, Accumulator::F32),
        (Arch::Sm89, Instruction::MmaMxf8K32, Accumulator::F32),
        (Arch::Sm90a, Instruction::MmaFp4K64, Accumulator::F32),
        (Arch::Sm121a, Instruction::WgmmaK16, Accumulator::F32),
        (Arch::Sm121a, Instruction::WgmmaFp8K32, Accumulator::F32),
        (Arch::Sm90a, Instruction::MmaTf32K8, Accumulator::F16),
    ] {
        let refused = Unit::new(arch, instruction, accumulator).unwrap_err();
        assert_eq!((refused.kernel, refused.arch), ("mma", arch), "{refused}");
    }
}

#[test]
fn special_values() {
    const ONE: u32 = 0x3f80;
    const INF: u32 = 0x7f80;
    const NAN: u32 = 0x7fff_ffff;
    for arch in ARCHES {
        let unit = Unit::new(arch, Instruction::MmaK16, Accumulator::F32).unwrap();
        assert_eq!(bf16(&unit, &[(3, 0xffc1)], ONE, 0), NAN);
        assert_eq!(bf16(&unit, &[(3, ONE)], ONE, 0xff80_0001), NAN);
        // Every other product is 0 × infinity.
        assert_eq!(bf16(&unit, &[(3, ONE)], INF, 0), NAN);
        assert_eq!(bf16(&unit, &[(0, INF), (1, 0xff80)], ONE, 0), NAN);
        assert_eq!(bf16(&unit, &[(0, INF)], ONE, 0xff80_0000), NAN);
        assert_eq!(bf16(&unit, &[(9, 0xff80)], ONE, 0), 0xff80_0000);
        // 2^127 twice: overflow is infinity although rounding is toward zero.
        assert_eq!(bf16(&unit, &[(0, 0x7f00), (1, 0x7f00)], ONE, 0), 0x7f80_0000);
        // Products beyond the range of f32 cancel exactly.
        assert_eq!(bf16(&unit, &[(0, 0x7f00), (1, 0xff00)], 0x7f00, 0), 0);
        assert_eq!(bf16(&unit, &[], 0, 0x8000_0000), 0);
        // A negative sum below the last subnormal.
        assert_eq!(bf16(&unit, &[(0, 0x9780)], 0x1780, 0), 0);
        // Subnormals in and out.
        assert_eq!(bf16(&unit, &[(0, 1)], ONE, 1), 0x0001_0001);
    }
}

#[test]
fn refusals_of_dot() {
    let unit = |arch, instruction| Unit::new(arch, instruction, Accumulator::F32).unwrap();
    let zeros = [0; 64];
    let plain = |format, n: usize| Operand { format, bits: &zeros[..n], scale: None };
    let mma = unit(Arch::Sm90a, Instruction::MmaK16);
    let (x, y) = (plain(Format::Bf16, 16), plain(Format::Bf16, 32));
    assert!(mma.dot(x, x, 0).is_ok());
    assert!(matches!(mma.dot(plain(Format::Bf16, 8), x, 0), Err(Error::Shape { arg: "a", .. })));
    assert!(matches!(mma.dot(x, y, 0), Err(Error::Shape { arg: "b", .. })));
    assert!(matches!(mma.dot(x, plain(Format::E4m3, 16), 0), Err(Error::Value { arg: "b", .. })));
    let scaled = |format, scale, bytes| Operand { scale: Some((scale, bytes)), ..plain(format, 64) };
    let fp4 = unit(Arch::Sm121a, Instruction::MmaFp4K64);
    let x = scaled(Format::E2m1, Format::Ue4m3, &[0x38; 4]);
    assert!(fp4.dot(x, x, 0).is_ok());
    // Two scales to 64 values are ue8m0's alone, and both operands have equally many.
    let two = scaled(Format::E2m1, Format::Ue8m0, &[127; 2]);
    assert!(fp4.dot(two, two, 0).is_ok());
    assert!(matches!(fp4.dot(x, two, 0), Err(Error::Shape { arg: "b", .. })));
    let wrong = scaled(Format::E2m1, Format::Ue4m3, &[0x38; 2]);
    assert!(matches!(fp4.dot(wrong, wrong, 0), Err(Error::Value { arg: "a", .. })));
    assert!(matches!(fp4.dot(plain(Format::E2m1, 64), x, 0), Err(Error::Value { arg: "a", .. })));
    let fp8 = unit(Arch::Sm121a, Instruction::MmaFp8K32);
    let x = scaled(Format::E4m3, Format::Ue8m0, &[127; 2]);
    assert!(matches!(fp8.dot(x, x, 0), Err(Error::Value { arg: "a", .. })));
    let mx = unit(Arch::Sm121a, Instruction::MmaMxf8K32);
    assert!(mx.dot(x, x, 0).is_ok());
}
