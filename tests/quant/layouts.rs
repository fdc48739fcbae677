//! `vt_kernels::layout`: where each scale is.

use vt_kernels::layout::{RowMajor, SwizzledScales128x4};

use crate::support::padded::assert_refuses;

mod vs_cutlass {
    use super::*;

    /// Offsets read off CUTLASS's scale-factor atom: 32 rows by 4 groups of rows by 4 blocks, strides 16, 4 and 1.
    #[test]
    fn golden_offsets() {
        let layout = SwizzledScales128x4::new(300, 10).unwrap();
        assert_eq!(layout.len(), 384 * 12);
        for ((row, col), offset) in [
            ((0, 0), 0),
            ((0, 3), 3),
            ((1, 0), 16),
            ((31, 3), 499),
            ((32, 0), 4),
            ((64, 1), 9),
            ((127, 3), 511),
            ((0, 4), 512),
            ((5, 9), 1024 + 81),
            ((128, 0), 1536),
            ((299, 9), 2 * 1536 + 1024 + 11 * 16 + 4 + 1),
        ] {
            assert_eq!(layout.offset(row, col), offset, "({row}, {col})");
        }
    }
}

#[test]
fn every_scale_has_its_own_place_and_padding_is_zeroed() {
    for rows in [0, 1, 5, 32, 127, 128, 129] {
        for cols in [1, 4, 5, 116] {
            let layout = SwizzledScales128x4::new(rows, cols).unwrap();
            assert_eq!(layout.len(), rows.next_multiple_of(128) * cols.next_multiple_of(4));
            assert_eq!(layout.is_empty(), rows == 0);
            let source: Vec<u8> = (0..rows * cols).map(|i| (i % 126 + 1) as u8).collect();
            let mut swizzled = vec![0x7f; layout.len()];
            layout.swizzle(&source, &mut swizzled).unwrap();
            assert_eq!(swizzled.iter().filter(|byte| **byte != 0).count(), rows * cols);
            let mut back = vec![0; rows * cols];
            layout.unswizzle(&swizzled, &mut back).unwrap();
            assert_eq!(back, source);
        }
    }
}

#[test]
fn row_major_is_row_after_row() {
    let layout = RowMajor::new(3, 5).unwrap();
    assert_eq!((layout.len(), layout.offset(2, 4), layout.is_empty()), (15, 14, false));
}

#[test]
fn errors_name_the_argument() {
    assert_refuses(SwizzledScales128x4::new(usize::MAX, 2), "scales");
    assert_refuses(SwizzledScales128x4::new(1 << 40, 1 << 40), "scales");
    assert_refuses(RowMajor::new(usize::MAX, 2), "scales");
    let layout = SwizzledScales128x4::new(2, 2).unwrap();
    let mut swizzled = [9; 512];
    assert_refuses(layout.swizzle(&[1; 3], &mut swizzled), "row_major");
    assert_refuses(layout.swizzle(&[1; 4], &mut swizzled[1..]), "swizzled");
    assert_refuses(layout.unswizzle(&swizzled, &mut [0; 5]), "row_major");
    assert_eq!(swizzled, [9; 512]);
}
