//! The fast folds against the definition, and what a caller may rely on.

use half::{bf16, f16};
use proptest::prelude::*;
use vt_kernels::format::{E4m3, Nvfp4Ref};
use vt_kernels::mma::{Accumulator, Format, Fp8Arm, Instruction, Operand, Unit, fold};
use vt_kernels::{Arch, Error, Rows, RowsMut};

use super::operands::{Case, Kind, accumulators, bits};
use crate::support::biteq::{assert_biteq, biteq};
use crate::support::strategies::Rng;

const ARCHES: [Arch; 4] = [Arch::Sm80, Arch::Sm89, Arch::Sm90a, Arch::Sm121a];

/// `acc` by the definition; `a` and `b` as bits, `[M, K]` and `[N, K]`.
fn defined(unit: &Unit, format: Format, a: &[Vec<u32>], b: &[Vec<u32>], acc: &[f32]) -> Vec<f32> {
    let padded = |x: &Vec<u32>| {
        let mut x = x.clone();
        x.resize(x.len().next_multiple_of(unit.k), 0);
        x
    };
    let (a, b): (Vec<_>, Vec<_>) = (a.iter().map(padded).collect(), b.iter().map(padded).collect());
    let operand = |bits| Operand { format, bits, scale: None };
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
    let dots = pairs.zip(acc).map(|((a, b), c)| unit.dot(operand(a), operand(b), c.to_bits()).unwrap());
    dots.map(f32::from_bits).collect()
}

fn flat<T>(x: &[Vec<u32>], from: impl Fn(u32) -> T) -> Vec<T> {
    x.iter().flatten().map(|&x| from(x)).collect()
}

type Fold<'a, T> = &'a dyn Fn(Rows<'_, T>, Rows<'_, T>, &mut RowsMut<'_, f32>) -> vt_kernels::Result<()>;

/// Runs `fold` on `[N, K]` and, if given, `fold_kn` on the transpose, and compares with the definition.
fn compare<T: Copy>(
    unit: &Unit,
    format: Format,
    case: &Case,
    from: impl Fn(u32) -> T + Copy,
    fold: Fold<'_, T>,
    fold_kn: Option<Fold<'_, T>>,
) {
    let Case { m, n, k, kind, seed } = *case;
    let mut rng = Rng::new(seed);
    let a: Vec<Vec<u32>> = (0..m).map(|_| bits(&mut rng, format, kind, k)).collect();
    let mut b: Vec<Vec<u32>> = (0..n).map(|_| bits(&mut rng, format, kind, k)).collect();
    if kind == Kind::Cancelling {
        let sign = if format == Format::E4m3 { 0x80 } else { 0x8000 };
        for row in &mut b {
            for i in 1..k {
                row[i] = if i % 2 == 1 { row[i - 1] ^ sign } else { row[i] };
            }
        }
    }
    let start = accumulators(&mut rng, m * n, kind);
    let mut want = start.clone();
    if k > 0 {
        want = defined(unit, format, &a, &b, &start);
    }
    let (flat_a, flat_b) = (flat(&a, from), flat(&b, from));
    let rows_a = Rows::new("a", &flat_a, m, k).unwrap();
    let mut acc = start.clone();
    let rows_b = Rows::new("b", &flat_b, n, k).unwrap();
    fold(rows_a, rows_b, &mut RowsMut::new("acc", &mut acc, m, n).unwrap()).unwrap();
    assert_biteq(&format!("{:?} {} {case:?}", unit.arch, unit.instruction), &acc, &want);
    if let Some(fold_kn) = fold_kn {
        let transposed: Vec<T> = (0..k).flat_map(|k| b.iter().map(move |b| from(b[k]))).collect();
        let rows_b = Rows::new("b", &transposed, k, n).unwrap();
        let mut acc = start.clone();
        fold_kn(rows_a, rows_b, &mut RowsMut::new("acc", &mut acc, m, n).unwrap()).unwrap();
        assert_biteq("transposed", &acc, &want);
    }
}

fn case() -> impl Strategy<Value = Case> {
    let k = prop_oneof![4 => 0usize..70, 1 => 250usize..270];
    let kind = prop::sample::select(Kind::ALL.to_vec());
    (
        prop_oneof![8 => 0usize..5, 1 => 62usize..68],
        prop_oneof![0usize..4, 30usize..36],
        k,
        kind,
        any::<u64>(),
    )
        .prop_map(|(m, n, k, kind, seed)| Case { m, n, k, kind, seed })
}

mod vs_definition {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn sixteen_bits(case in case()) {
            for arch in ARCHES {
                let unit = Unit::new(arch, Instruction::MmaK16, Accumulator::F32).unwrap();
                let from = |x: u32| bf16::from_bits(x as u16);
                let kn: Fold<'_, bf16> = &|a, b, acc| fold::bf16_kn(arch, a, b, acc);
                compare(&unit, Format::Bf16, &case, from, &|a, b, acc| fold::bf16(arch, a, b, acc), Some(kn));
                let from = |x: u32| f16::from_bits(x as u16);
                compare(&unit, Format::F16, &case, from, &|a, b, acc| fold::f16(arch, a, b, acc), None);
            }
        }

        #[test]
        fn e4m3(case in case()) {
            for (arch, arm, instruction) in [
                (Arch::Sm90a, Fp8Arm::Wgmma, Instruction::WgmmaFp8K32),
                (Arch::Sm89, Fp8Arm::MmaSync, Instruction::MmaFp8K32),
                (Arch::Sm90a, Fp8Arm::MmaSync, Instruction::MmaFp8K32),
                (Arch::Sm121a, Fp8Arm::MmaSync, Instruction::MmaFp8K32),
            ] {
                let unit = Unit::new(arch, instruction, Accumulator::F32).unwrap();
                let from = |x: u32| E4m3::from_bits(x as u8);
                let kn: Fold<'_, E4m3> = &|a, b, acc| fold::e4m3_kn(arch, arm, a, b, acc);
                compare(&unit, Format::E4m3, &case, from, &|a, b, acc| fold::e4m3(arch, arm, a, b, acc), Some(kn));
            }
        }
    }
}

mod nvfp4_vs_definition {
    use super::*;

    /// Codes and scales of `rows` rows: at random, with groups that are empty or cancel, and rarely NaN.
    fn operand(rng: &mut Rng, rows: usize, k: usize, second: bool) -> (Vec<u8>, Vec<u8>) {
        let (mut packed, mut scales) = (Vec::new(), Vec::new());
        for _ in 0..rows * (k / 16) {
            let mut group: Vec<u8> = (0..8).map(|_| rng.bits() as u8).collect();
            match rng.below(6) {
                0 => group.fill(0x80),
                // A high nibble against the negative of the low one; their partners are equal.
                1 if second => group = group.iter().map(|x| x & 15 | (x & 15 ^ 8) << 4).collect(),
                1 | 2 if !second => group = group.iter().map(|x| x & 15 | (x & 15) << 4).collect(),
                _ => {}
            }
            packed.extend(group);
            scales.push(match rng.below(12) {
                0 => rng.bits() as u8 & 7,
                1 => 0x80,
                2 if rng.below(8) == 0 => 0xff,
                2 | 3 => 0x70 | rng.bits() as u8 & 0x8e,
                _ => rng.bits() as u8 & 0xf7,
            });
        }
        (packed, scales)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn equal(m in 0usize..4, n in prop_oneof![0usize..4, 30usize..36], groups in prop_oneof![0usize..10, 31usize..35], kind in prop::sample::select(Kind::ALL.to_vec()), seed: u64) {
            let k = 16 * groups;
            let mut rng = Rng::new(seed);
            let (a, scales_a) = operand(&mut rng, m, k, false);
            let (b, scales_b) = operand(&mut rng, n, k, true);
            let view = |packed, scales, rows| {
                let packed = Rows::new("packed", packed, rows, k / 2).unwrap();
                Nvfp4Ref::new("x", packed, Rows::new("scales", scales, rows, groups).unwrap(), 1.0).unwrap()
            };
            let start = accumulators(&mut rng, m * n, kind);
            let mut acc = start.clone();
            let mut out = RowsMut::new("acc", &mut acc, m, n).unwrap();
            fold::nvfp4(Arch::Sm121a, view(&a, &scales_a, m), view(&b, &scales_b, n), &mut out).unwrap();
            let unit = Unit::new(Arch::Sm121a, Instruction::MmaFp4K64, Accumulator::F32).unwrap();
            let padded = k.next_multiple_of(64);
            let row = |packed: &[u8], scales: &[u8], i: usize| {
                let mut codes: Vec<u32> = packed[i * k / 2..][..k / 2].iter().flat_map(|&x| [u32::from(x & 15), u32::from(x >> 4)]).collect();
                let mut scales = scales[i * groups..][..groups].to_vec();
                codes.resize(padded, 0);
                scales.resize(padded / 16, 0);
                (codes, scales)
            };
            for i in 0..m {
                for j in 0..n {
                    let ((a, sa), (b, sb)) = (row(&a, &scales_a, i), row(&b, &scales_b, j));
                    let a = Operand { format: Format::E2m1, bits: &a, scale: Some((Format::Ue4m3, &sa)) };
                    let b = Operand { format: Format::E2m1, bits: &b, scale: Some((Format::Ue4m3, &sb)) };
                    let c = start[i * n + j].to_bits();
                    let want = if k == 0 { c } else { unit.dot(a, b, c).unwrap() };
                    prop_assert_eq!(acc[i * n + j].to_bits(), want, "{} {}", i, j);
                }
            }
        }
    }
}

mod properties {
    use super::*;

    fn bf16_fold(a: &[bf16], b: &[bf16], acc: &mut [f32], shape: (usize, usize, usize)) {
        let (m, n, k) = shape;
        let (a, b) = (Rows::new("a", a, m, k).unwrap(), Rows::new("b", b, n, k).unwrap());
        fold::bf16(Arch::Sm90a, a, b, &mut RowsMut::new("acc", acc, m, n).unwrap()).unwrap();
    }

    /// Folding parts of `K` in turn is folding it at once, and a row does not depend on its neighbours.
    #[test]
    fn chained_and_alone() {
        let (m, n, k) = (3, 37, 600);
        let mut rng = Rng::new(11);
        let (a, b) = (rng.normals_bf16(m * k, 1.0), rng.normals_bf16(n * k, 1.0));
        let start = rng.normals(m * n, 1.0);
        let mut want = start.clone();
        bf16_fold(&a, &b, &mut want, (m, n, k));
        let mut acc = start.clone();
        for ks in [0..16, 16..336, 336..600] {
            let part =
                |x: &[bf16]| -> Vec<bf16> { x.chunks(k).flat_map(|row| row[ks.clone()].to_vec()).collect() };
            bf16_fold(&part(&a), &part(&b), &mut acc, (m, n, ks.len()));
        }
        assert_biteq("chained", &acc, &want);
        for i in 0..m {
            let mut row = start[i * n..][..n].to_vec();
            bf16_fold(&a[i * k..][..k], &b, &mut row, (1, n, k));
            assert_biteq("alone", &row, &want[i * n..][..n]);
        }
        assert!(biteq("control: order", &start, &want).is_err());
    }

    /// Strides and what lies between rows make no difference, and nothing there is written.
    #[test]
    fn strided() {
        let (m, n, k) = (4, 33, 40);
        let mut rng = Rng::new(12);
        let (a, b) = (rng.normals_bf16(m * k, 1.0), rng.normals_bf16(n * k, 1.0));
        let mut want = vec![0.0; m * n];
        bf16_fold(&a, &b, &mut want, (m, n, k));
        let spread =
            |x: &[bf16]| -> Vec<bf16> { x.chunks(k).flat_map(|r| [r, &[bf16::NAN; 3]].concat()).collect() };
        let (a, b) = (spread(&a), spread(&b));
        let mut acc: Vec<f32> = (0..m).flat_map(|_| [vec![0.0; n], vec![7.0; 2]].concat()).collect();
        let rows = |x, rows| Rows::strided("x", x, rows, k, k + 3).unwrap();
        let mut out = RowsMut::strided("acc", &mut acc, m, n, n + 2).unwrap();
        fold::bf16(Arch::Sm90a, rows(&a, m), rows(&b, n), &mut out).unwrap();
        for (row, want) in acc.chunks(n + 2).zip(want.chunks(n)) {
            assert_biteq("strided", &row[..n], want);
            assert_eq!(row[n..], [7.0, 7.0]);
        }
    }

    /// 1/16 times 1/16 no longer moves an accumulator of 64 under `wgmma` e4m3: seen on a GH200.
    #[test]
    fn wgmma_e4m3_sticks_at_64() {
        let sixteenth = vec![E4m3::from_bits(0x18); 32 * 4096];
        let x = Rows::new("x", &sixteenth, 1, 32 * 4096).unwrap();
        let mut acc = [0.0];
        let mut out = RowsMut::new("acc", &mut acc, 1, 1).unwrap();
        fold::e4m3(Arch::Sm90a, Fp8Arm::Wgmma, x, x, &mut out).unwrap();
        assert_eq!(acc, [64.0]);
    }
}

mod controls {
    use super::*;

    /// The comparison above would see the unit of another chip.
    #[test]
    fn another_chip_differs() {
        let (m, n, k) = (4, 40, 64);
        let mut rng = Rng::new(13);
        let (a, b) = (rng.normals_bf16(m * k, 1.0), rng.normals_bf16(n * k, 1.0));
        let run = |arch| {
            let mut acc = vec![0.0; m * n];
            let (a, b) = (Rows::new("a", &a, m, k).unwrap(), Rows::new("b", &b, n, k).unwrap());
            fold::bf16(arch, a, b, &mut RowsMut::new("acc", &mut acc, m, n).unwrap()).unwrap();
            acc
        };
        assert!(biteq("sm_80", &run(Arch::Sm80), &run(Arch::Sm90a)).is_err());
        assert_biteq("sm_121a", &run(Arch::Sm121a), &run(Arch::Sm90a));
        let (a, b): (Vec<E4m3>, Vec<E4m3>) = (
            rng.normals(m * k, 1.0).into_iter().map(E4m3::from_f32).collect(),
            rng.normals(n * k, 1.0).into_iter().map(E4m3::from_f32).collect(),
        );
        let run = |arch, arm| {
            let mut acc = vec![0.1; m * n];
            let (a, b) = (Rows::new("a", &a, m, k).unwrap(), Rows::new("b", &b, n, k).unwrap());
            fold::e4m3(arch, arm, a, b, &mut RowsMut::new("acc", &mut acc, m, n).unwrap()).unwrap();
            acc
        };
        let wgmma = run(Arch::Sm90a, Fp8Arm::Wgmma);
        let halves = run(Arch::Sm90a, Fp8Arm::MmaSync);
        let fused = run(Arch::Sm121a, Fp8Arm::MmaSync);
        assert!(biteq("halves", &halves, &wgmma).is_err());
        assert!(biteq("fused", &fused, &wgmma).is_err());
        assert!(biteq("fused", &fused, &halves).is_err());
    }
}

mod errors {
    use super::*;

    #[test]
    fn shapes_and_arms() {
        let x = [bf16::ONE; 32];
        let rows = |m, k| Rows::new("x", &x[..m * k], m, k).unwrap();
        let mut acc = vec![3.0f32; 4];
        let mut run = |a, b, m, n| {
            fold::bf16(Arch::Sm80, a, b, &mut RowsMut::new("acc", &mut acc[..m * n], m, n).unwrap())
        };
        assert!(matches!(run(rows(2, 16), rows(2, 8), 2, 2), Err(Error::Shape { arg: "b", .. })));
        assert!(matches!(run(rows(2, 16), rows(1, 16), 2, 2), Err(Error::Shape { arg: "acc", .. })));
        assert_eq!(acc, [3.0; 4]);
        let e = [E4m3::from_bits(0); 4];
        let e = Rows::new("e", &e, 2, 2).unwrap();
        for (arch, arm) in [(Arch::Sm121a, Fp8Arm::Wgmma), (Arch::Sm80, Fp8Arm::MmaSync)] {
            let mut out = RowsMut::new("acc", &mut acc, 2, 2).unwrap();
            assert!(matches!(fold::e4m3(arch, arm, e, e, &mut out), Err(Error::Unsupported(_))));
        }
        assert_eq!(acc, [3.0; 4]);
    }
}
