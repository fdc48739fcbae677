//! NVFP4 tensors.

use half::bf16;
use vt_kernels::Rows;
use vt_kernels::format::{E2m1, Nvfp4, Nvfp4Ref, Ue4m3};

use crate::support::padded::assert_refuses;

/// Every code under every scale: one row for each scale, its block the 16 codes.
fn all(global_scale: f32) -> (Vec<u8>, Vec<u8>, f32) {
    let codes: Vec<u8> = (0..8).map(|i| (2 * i) | (2 * i + 1) << 4).collect();
    ((0..256).flat_map(|_| codes.clone()).collect(), (0..=255).collect(), global_scale)
}

fn view<'a>(tensor: &'a (Vec<u8>, Vec<u8>, f32)) -> Nvfp4Ref<'a> {
    let (packed, scales) =
        (Rows::new("p", &tensor.0, 256, 8).unwrap(), Rows::new("s", &tensor.1, 256, 1).unwrap());
    Nvfp4Ref::new("x", packed, scales, tensor.2).unwrap()
}

mod vs_paper {
    use super::*;

    #[test]
    fn every_code_under_every_scale_is_exact_in_bf16() {
        let tensor = all(1.0);
        for scale in 0..=255u8 {
            let mut row = [bf16::ZERO; 16];
            view(&tensor).unscaled_row(scale.into(), &mut row);
            for (code, got) in row.iter().enumerate() {
                let want = E2m1::from_bits(code as u8).to_f32() * Ue4m3::from_bits(scale).to_f32();
                match want.is_nan() {
                    true => assert_eq!(got.to_bits(), 0x7fff),
                    false => assert_eq!(got.to_f32().to_bits(), want.to_bits(), "code {code}, scale {scale}"),
                }
            }
        }
    }

    #[test]
    fn the_global_scale_multiplies_last() {
        let tensor = all(0.3);
        for scale in (0..=255u8).filter(|s| s & 0x7f != 0x7f) {
            let mut row = [0.0; 16];
            view(&tensor).dequantize_row(scale.into(), &mut row);
            for (code, got) in row.iter().enumerate() {
                let block = E2m1::from_bits(code as u8).to_f32() * Ue4m3::from_bits(scale).to_f32();
                assert_eq!(got.to_bits(), (block * 0.3).to_bits());
            }
        }
    }
}

#[test]
fn rows_and_slices() {
    let tensor = Nvfp4::new("w", 3, 32, (0..48).collect(), vec![0x38, 1, 2, 3, 4, 5], 2.0).unwrap();
    let view = tensor.view();
    assert_eq!((view.rows(), view.cols(), view.global_scale(), tensor.bytes()), (3, 32, 2.0, 58));
    let slice = view.slice("w", 1..3).unwrap();
    assert_eq!((slice.packed_row(0), slice.scales_row(1)), (view.packed_row(1), view.scales_row(2)));
    assert_refuses(view.slice("w", 2..4), "w");
    assert_eq!(Nvfp4::new("w", 0, 16, vec![], vec![], 1.0).unwrap().bytes(), 4);
}

#[test]
fn errors_name_the_argument() {
    let new = |cols, packed: usize, scales: Vec<u8>, global| {
        Nvfp4::new("w", 1, cols, vec![0; packed], scales, global)
    };
    assert_refuses(new(24, 12, vec![0], 1.0), "w");
    assert_refuses(new(16, 7, vec![0], 1.0), "w");
    assert_refuses(new(16, 8, vec![0, 0], 1.0), "w");
    for nan in [0x7f, 0xff] {
        assert_refuses(new(16, 8, vec![nan], 1.0), "w");
    }
    for global in [f32::NAN, f32::INFINITY, -1.0] {
        assert_refuses(new(16, 8, vec![0], global), "w");
    }
    assert!(new(16, 8, vec![0x38], 0.0).is_ok());
}
