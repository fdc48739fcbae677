//! What is refused, by which name, and that nothing is written then.

use half::bf16;
use vt_kernels::attention::flash::{Inputs, Plan, Shape};
use vt_kernels::format::E4m3;
use vt_kernels::{Arch, Error, Rows, RowsMut};

const SHAPE: Shape = Shape { n_heads: 2, n_kv_heads: 1, head_dim: 8, block_size: 4, window: None };
const TAKEN: [bf16; 64] = [bf16::ONE; 64];

fn rows(n: usize, cols: usize) -> Rows<'static, bf16> {
    Rows::new("x", &TAKEN[..n * cols], n, cols).unwrap()
}

/// Two queries of a sequence with six keys on pages 1 and 0, and one with one key on page 1.
fn inputs() -> Inputs<'static, bf16> {
    Inputs {
        q: rows(3, 16),
        k_cache: rows(8, 8),
        v_cache: rows(8, 8),
        block_table: Rows::new("block_table", &[1, 0, 9, 1, 9, 9], 2, 3).unwrap(),
        cu_seqlens: &[0, 2, 3],
        seq_lens: &[6, 1],
        softmax_scale: 0.5,
        k_scale: 1.0,
        v_scale: 1.0,
    }
}

/// Name of the argument that is refused.
#[track_caller]
fn refused_by(shape: Shape, inputs: Inputs<'_, bf16>, out_rows: usize) -> &'static str {
    let mut out = [bf16::INFINITY; 64];
    let plan = Plan::new(Arch::Sm90a, shape).unwrap();
    let mut view = RowsMut::new("out", &mut out[..out_rows * 16], out_rows, 16).unwrap();
    let error = plan.reference(&inputs, &mut view).unwrap_err();
    assert!(out.iter().all(|&x| x == bf16::INFINITY), "written although refused: {error}");
    match error {
        Error::Shape { arg, .. } | Error::Value { arg, .. } => arg,
        Error::Unsupported(error) => panic!("{error}"),
    }
}

fn refused(inputs: Inputs<'_, bf16>) -> &'static str {
    refused_by(SHAPE, inputs, 3)
}

#[test]
fn the_right_inputs_are_taken() {
    let mut out = [bf16::INFINITY; 48];
    let plan = Plan::new(Arch::Sm121a, SHAPE).unwrap();
    plan.reference(&inputs(), &mut RowsMut::new("out", &mut out, 3, 16).unwrap()).unwrap();
    assert_eq!(out, [bf16::ONE; 48]);
    assert_eq!(plan.shape(), &SHAPE);
}

#[test]
fn shapes_of_arguments() {
    assert_eq!(refused(Inputs { q: rows(3, 8), ..inputs() }), "q");
    assert_eq!(refused_by(SHAPE, inputs(), 2), "out");
    assert_eq!(refused(Inputs { k_cache: rows(4, 16), ..inputs() }), "k_cache");
    assert_eq!(refused(Inputs { v_cache: rows(7, 8), ..inputs() }), "v_cache");
    assert_eq!(refused(Inputs { k_cache: rows(7, 8), v_cache: rows(7, 8), ..inputs() }), "k_cache");
    assert_eq!(refused(Inputs { seq_lens: &[6], ..inputs() }), "seq_lens");
    let short = Rows::new("block_table", &[1, 0, 9], 1, 3).unwrap();
    assert_eq!(refused(Inputs { block_table: short, ..inputs() }), "block_table");
}

#[test]
fn sequences() {
    for cu_seqlens in [&[][..], &[1, 2, 3], &[0, 2, 2], &[0, 4, 3], &[0, 3]] {
        let arg = refused(Inputs { cu_seqlens, ..inputs() });
        assert!(["cu_seqlens", "seq_lens"].contains(&arg), "{arg}");
    }
    assert_eq!(refused(Inputs { seq_lens: &[1, 1], ..inputs() }), "seq_lens");
    assert_eq!(refused(Inputs { seq_lens: &[6, 0], ..inputs() }), "seq_lens");
    // More keys than the table has pages for.
    assert_eq!(refused(Inputs { seq_lens: &[13, 1], ..inputs() }), "block_table");
    assert_eq!(refused(Inputs { seq_lens: &[u32::MAX, 1], ..inputs() }), "block_table");
}

#[test]
fn pages() {
    for table in [[2, 0, 9, 1, 9, 9], [1, 2, 9, 1, 9, 9], [1, u32::MAX, 9, 1, 9, 9], [1, 0, 9, 2, 9, 9]] {
        let block_table = Rows::new("block_table", &table, 2, 3).unwrap();
        assert_eq!(refused(Inputs { block_table, ..inputs() }), "block_table");
    }
    // The window of both queries begins on page 1 of the sequence: the entry before it is not read.
    let table = [9, 0, 9, 1, 9, 9];
    let block_table = Rows::new("block_table", &table, 2, 3).unwrap();
    let mut out = [bf16::INFINITY; 48];
    let view = &mut RowsMut::new("out", &mut out, 3, 16).unwrap();
    let one = Plan::new(Arch::Sm90a, Shape { window: Some(1), ..SHAPE }).unwrap();
    one.reference(&Inputs { block_table, ..inputs() }, view).unwrap();
    assert_eq!(
        refused_by(Shape { window: Some(2), ..SHAPE }, Inputs { block_table, ..inputs() }, 3),
        "block_table"
    );
}

#[test]
fn scales() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
        assert_eq!(refused(Inputs { softmax_scale: bad, ..inputs() }), "softmax_scale");
    }
    for bad in [f32::NAN, f32::INFINITY, 0.0, -1.0, 2.0] {
        assert_eq!(refused(Inputs { k_scale: bad, ..inputs() }), "k_scale");
        assert_eq!(refused(Inputs { v_scale: bad, ..inputs() }), "v_scale");
    }
    let codes = [E4m3::from_f32(1.0); 64];
    let Inputs { q, block_table, cu_seqlens, seq_lens, softmax_scale, .. } = inputs();
    let cache = Rows::new("cache", &codes, 8, 8).unwrap();
    let fp8 = |k_scale, v_scale| {
        let inputs = Inputs {
            q,
            k_cache: cache,
            v_cache: cache,
            block_table,
            cu_seqlens,
            seq_lens,
            softmax_scale,
            k_scale,
            v_scale,
        };
        let mut out = [bf16::INFINITY; 48];
        let mut view = RowsMut::new("out", &mut out, 3, 16).unwrap();
        Plan::new(Arch::Sm90a, SHAPE).unwrap().reference(&inputs, &mut view).map(|()| out[0])
    };
    assert_eq!(fp8(0.5, 2.0), Ok(bf16::from_f32(2.0)));
    assert!(matches!(fp8(0.0, 2.0), Err(Error::Value { arg: "k_scale", .. })));
    assert!(matches!(fp8(0.5, -2.0), Err(Error::Value { arg: "v_scale", .. })));
}

#[test]
fn plans() {
    let wrong = [
        ("n_heads", Shape { n_heads: 0, ..SHAPE }),
        ("n_heads", Shape { n_heads: 3, n_kv_heads: 2, ..SHAPE }),
        ("n_heads", Shape { n_heads: usize::MAX, ..SHAPE }),
        ("n_kv_heads", Shape { n_kv_heads: 0, ..SHAPE }),
        ("n_kv_heads", Shape { n_heads: usize::MAX, n_kv_heads: usize::MAX, ..SHAPE }),
        ("head_dim", Shape { head_dim: 0, ..SHAPE }),
        ("head_dim", Shape { head_dim: 12, ..SHAPE }),
        ("head_dim", Shape { head_dim: 264, ..SHAPE }),
        ("block_size", Shape { block_size: 0, ..SHAPE }),
        ("window", Shape { window: Some(0), ..SHAPE }),
    ];
    for (name, shape) in wrong {
        match Plan::new(Arch::Sm90a, shape) {
            Err(Error::Value { arg, .. }) => assert_eq!(arg, name, "{shape:?}"),
            other => panic!("{shape:?}: {other:?}"),
        }
    }
    for arch in [Arch::Sm80, Arch::Sm89] {
        assert!(matches!(Plan::new(arch, SHAPE), Err(Error::Unsupported(_))));
    }
}
