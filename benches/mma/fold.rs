//! Multiply-adds of the folds on one thread, `[M, K]` × `[N, K]`.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use half::bf16;
use vt_kernels::format::{E4m3, Nvfp4Ref};
use vt_kernels::mma::{Fp8Arm, fold};
use vt_kernels::{Arch, Rows, RowsMut};

/// Decode, and a tile of a prefill.
const SHAPES: [(usize, usize, usize); 2] = [(1, 1024, 2688), (64, 64, 2688)];

fn bytes(n: usize, seed: u64) -> Vec<u8> {
    let step = |x: &mut u64| {
        *x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Some((*x >> 56) as u8)
    };
    std::iter::repeat_n((), n).scan(seed, |x, ()| step(x)).collect()
}

pub fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("mma/fold");
    group.sample_size(10);
    for (m, n, k) in SHAPES {
        group.throughput(Throughput::Elements((m * n * k) as u64));
        let shape = format!("{m}x{n}x{k}");
        let random = |n, seed| bytes(n, seed).into_iter();
        let mut acc = vec![0.0f32; m * n];

        let wide = |n, seed| -> Vec<bf16> {
            random(n, seed).map(|x| bf16::from_f32(f32::from(x as i8) / 50.0)).collect()
        };
        let (a, b) = (wide(m * k, 1), wide(n * k, 2));
        for (name, arch) in [("bf16_sm_80", Arch::Sm80), ("bf16_sm_90a", Arch::Sm90a)] {
            group.bench_function(format!("{name}/{shape}"), |bench| {
                let (a, b) = (Rows::new("a", &a, m, k).unwrap(), Rows::new("b", &b, n, k).unwrap());
                let mut out = RowsMut::new("acc", &mut acc, m, n).unwrap();
                bench.iter(|| fold::bf16(arch, black_box(a), b, &mut out).unwrap());
            });
        }
        group.bench_function(format!("bf16_kn/{shape}"), |bench| {
            let (a, b) = (Rows::new("a", &a, m, k).unwrap(), Rows::new("b", &b, k, n).unwrap());
            let mut out = RowsMut::new("acc", &mut acc, m, n).unwrap();
            bench.iter(|| fold::bf16_kn(Arch::Sm90a, black_box(a), b, &mut out).unwrap());
        });

        let narrow = |n, seed| -> Vec<E4m3> { random(n, seed).map(|x| E4m3::from_bits(x & 0xbf)).collect() };
        let (a, b) = (narrow(m * k, 3), narrow(n * k, 4));
        for (name, arch, arm) in [
            ("e4m3_wgmma", Arch::Sm90a, Fp8Arm::Wgmma),
            ("e4m3_halves", Arch::Sm90a, Fp8Arm::MmaSync),
            ("e4m3_sm_121a", Arch::Sm121a, Fp8Arm::MmaSync),
        ] {
            group.bench_function(format!("{name}/{shape}"), |bench| {
                let (a, b) = (Rows::new("a", &a, m, k).unwrap(), Rows::new("b", &b, n, k).unwrap());
                let mut out = RowsMut::new("acc", &mut acc, m, n).unwrap();
                bench.iter(|| fold::e4m3(arch, arm, black_box(a), b, &mut out).unwrap());
            });
        }

        let scales = |n, seed| -> Vec<u8> { random(n / 16, seed).map(|x| 0x30 | x & 0xf).collect() };
        let (a, b) = (bytes(m * k / 2, 5), bytes(n * k / 2, 6));
        let (scales_a, scales_b) = (scales(m * k, 7), scales(n * k, 8));
        group.bench_function(format!("nvfp4/{shape}"), |bench| {
            let view = |packed, scales, rows| {
                let packed = Rows::new("packed", packed, rows, k / 2).unwrap();
                Nvfp4Ref::new("x", packed, Rows::new("scales", scales, rows, k / 16).unwrap(), 1.0).unwrap()
            };
            let (a, b) = (view(&a, &scales_a, m), view(&b, &scales_b, n));
            let mut out = RowsMut::new("acc", &mut acc, m, n).unwrap();
            bench.iter(|| fold::nvfp4(Arch::Sm121a, black_box(a), b, &mut out).unwrap());
        });
    }
    group.finish();
}
