//! `embedding/gather`: rows of a table, bits unchanged.

use half::bf16;
use proptest::prelude::*;
use vt_kernels::embedding::gather::{Plan, Shape};
use vt_kernels::{Arch, Element, Error, Rows, RowsMut};

use crate::support::biteq::{Bits, assert_biteq, biteq};
use crate::support::strategies::{any_bf16, any_f32};

/// A table and an output whose padding is `poison`; the rows that were asked for, then the output's buffer.
fn gather<T: Element>(
    table: &[T],
    (vocab, cols): (usize, usize),
    pads: (usize, usize),
    ids: &[u32],
    poison: T,
) -> (Vec<T>, Vec<T>) {
    let mut padded = vec![poison; vocab * (cols + pads.0)];
    for (row, values) in padded.chunks_mut((cols + pads.0).max(1)).zip(table.chunks(cols.max(1))) {
        row[..cols].copy_from_slice(values);
    }
    let mut out = vec![poison; ids.len() * (cols + pads.1)];
    let plan = Plan::new(Arch::Sm90a, Shape { vocab, cols }).unwrap();
    let rows = Rows::strided("table", &padded, vocab, cols, cols + pads.0).unwrap();
    let mut view = RowsMut::strided("out", &mut out, ids.len(), cols, cols + pads.1).unwrap();
    plan.reference(rows, ids, &mut view).unwrap();
    let got = (0..ids.len()).flat_map(|i| view.row(i).to_vec()).collect();
    (got, out)
}

mod vs_definition {
    use super::*;

    fn check<T: Element + Bits>(
        table: &[T],
        size: (usize, usize),
        pads: (usize, usize),
        ids: &[u32],
        poison: T,
    ) -> Result<(), String> {
        let want: Vec<T> =
            ids.iter().flat_map(|&id| table[id as usize * size.1..][..size.1].to_vec()).collect();
        let (got, buffer) = gather(table, size, pads, ids, poison);
        biteq("out", &got, &want)?;
        let untouched = (0..buffer.len()).filter(|at| at % (size.1 + pads.1) >= size.1);
        let padding: Vec<T> = untouched.map(|at| buffer[at]).collect();
        biteq("padding", &padding, &vec![poison; padding.len()])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_bits_any_stride(
            (vocab, cols, ids) in (1usize..9, 1usize..20).prop_flat_map(|(vocab, cols)| {
                (Just(vocab), Just(cols), prop::collection::vec(0..vocab as u32, 0..12))
            }),
            pads in (0usize..4, 0usize..4),
            f32s in prop::collection::vec(any_f32(), 160),
            bf16s in prop::collection::vec(any_bf16(), 160),
        ) {
            let n = vocab * cols;
            check(&f32s[..n], (vocab, cols), pads, &ids, f32::NAN).map_err(TestCaseError::fail)?;
            check(&bf16s[..n], (vocab, cols), pads, &ids, bf16::NAN).map_err(TestCaseError::fail)?;
        }
    }

    #[test]
    fn nothing_and_one() {
        assert!(gather::<f32>(&[], (0, 4), (0, 0), &[], 0.0).0.is_empty());
        assert!(gather::<f32>(&[], (3, 0), (0, 0), &[2, 0], 0.0).0.is_empty());
        assert_biteq("one", &gather(&[7.5f32], (1, 1), (0, 0), &[0], 0.0).0, &[7.5]);
    }
}

mod errors {
    use super::*;

    #[test]
    fn id_out_of_range_writes_nothing() {
        let (table, mut out) = ([1.0f32; 6], [9.0f32; 4]);
        let plan = Plan::new(Arch::Sm121a, Shape { vocab: 3, cols: 2 }).unwrap();
        let rows = Rows::new("table", &table, 3, 2).unwrap();
        let error = plan.reference(rows, &[0, 3], &mut RowsMut::new("out", &mut out, 2, 2).unwrap());
        assert!(matches!(error, Err(Error::Value { arg: "ids", .. })), "{error:?}");
        assert_eq!(out, [9.0; 4]);
    }

    #[test]
    fn shapes_and_architectures() {
        let (table, mut out) = ([1.0f32; 6], [9.0f32; 4]);
        let plan = Plan::new(Arch::Sm90a, Shape { vocab: 3, cols: 2 }).unwrap();
        let wrong = Rows::new("table", &table, 2, 3).unwrap();
        let error = plan.reference(wrong, &[0], &mut RowsMut::new("out", &mut out, 1, 4).unwrap());
        assert!(matches!(error, Err(Error::Shape { arg: "table", .. })), "{error:?}");
        let rows = Rows::new("table", &table, 3, 2).unwrap();
        let error = plan.reference(rows, &[0], &mut RowsMut::new("out", &mut out, 2, 2).unwrap());
        assert!(matches!(error, Err(Error::Shape { arg: "out", .. })), "{error:?}");
        for arch in [Arch::Sm80, Arch::Sm89] {
            let refused = Plan::new(arch, Shape { vocab: 3, cols: 2 });
            assert!(matches!(refused, Err(Error::Unsupported(_))));
        }
    }
}

mod controls {
    use super::*;

    #[test]
    fn a_stale_id_is_seen() {
        let table: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let right = gather(&table, (4, 3), (0, 0), &[2, 1], 0.0).0;
        let stale = gather(&table, (4, 3), (0, 0), &[2, 2], 0.0).0;
        assert!(biteq("out", &stale, &right).is_err());
    }
}
