//! A sequence in two pieces, cut anywhere, and inputs that are views of one buffer.

use super::*;

/// Cut at every offset: at a multiple of the chunk the bits of the whole, elsewhere within the recurrence's bound.
#[test]
fn every_offset() {
    let mut rng = Rng::new(21);
    let (tokens, chunk) = (70, 16);
    let t = Tokens::<bf16>::new(&mut rng, SIZES, tokens, 1);
    let want = recurrence(SIZES, &t, None, 0.0);
    let shape = shape(SIZES, chunk);
    let (out, state) = whole(shape, &t);
    for at in 0..=tokens {
        let (first, carried) = whole(shape, &t.slice(0..at));
        let rest = t.slice(at..tokens);
        let ends = [0, rest.len() as u32];
        let (second, last) = scan(Arch::Sm121a, shape, &rest, &ends, Some(&carried), &[true]);
        if at % chunk == 0 {
            assert_biteq("out", &[first.values(), second.values()].concat(), &out.values());
            assert_biteq("state", &last.values(), &state.values());
        }
        let got = [first.f64s(), second.f64s()].concat();
        near("y", &got, &want.y, &want.y_scale, vs_paper::RELATIVE)
            .unwrap_or_else(|e| panic!("cut {at}: {e}"));
        near("state", &last.f64s(), &want.state, &want.state_scale, vs_paper::RELATIVE)
            .unwrap_or_else(|e| panic!("cut {at}: {e}"));
    }
}

/// `z | x | B | C | dt` side by side in one row, as `in_proj` leaves them, against copies of each.
#[test]
fn views_of_one_buffer_equal_copies() {
    let mut rng = Rng::new(23);
    let (tokens, inner, shared) = (37, SIZES.n_heads * SIZES.head_dim, SIZES.n_groups * SIZES.d_state);
    let buffer = Padded::<bf16>::normal(&mut rng, tokens, 2 * inner + 2 * shared + SIZES.n_heads, 3, 1.0);
    let mut start = 0;
    let mut columns = |cols: usize| {
        start += cols;
        buffer.view().columns("in_proj", start - cols..start).unwrap()
    };
    let [z, x, b, c, dt] = [inner, inner, shared, shared, SIZES.n_heads].map(&mut columns);
    let copy = |rows: vt_kernels::Rows<'_, bf16>| {
        let mut values = (0..tokens).flat_map(|i| rows.row(i).to_vec());
        Padded::new(tokens, rows.cols(), 0, bf16::NAN, || values.next().unwrap())
    };
    let constants = Tokens::<bf16>::new(&mut rng, SIZES, 0, 0);
    let t = Tokens { x: copy(x), dt: copy(dt), B: copy(b), C: copy(c), z: copy(z), ..constants };
    let shape = shape(SIZES, 16);
    let (want, want_state) = whole(shape, &t);
    let (ends, has_initial) = ([0, tokens as u32], [false]);
    let views = Inputs { x, dt, B: b, C: c, z: Some(z), ..inputs(&t, &ends, None, &has_initial) };
    let (mut out, mut state) =
        (Padded::<f32>::poisoned(tokens, inner, 0), Padded::<f32>::poisoned(1, inner * SIZES.d_state, 0));
    let plan = Plan::new(Arch::Sm121a, shape).unwrap();
    plan.reference(&views, &mut out.view_mut(), &mut state.view_mut()).unwrap();
    assert_biteq("out", &out.values(), &want.values());
    assert_biteq("state", &state.values(), &want_state.values());
}

/// A batch without sequences, and outputs of the wrong shape.
#[test]
fn nothing_to_do_and_outputs_that_do_not_fit() {
    let mut rng = Rng::new(25);
    let none = Tokens::<bf16>::new(&mut rng, SIZES, 0, 0);
    let (out, states) = scan(Arch::Sm90a, shape(SIZES, 16), &none, &[0], None, &[]);
    assert!(out.values().is_empty() && states.values().is_empty());

    let t = Tokens::<bf16>::new(&mut rng, SIZES, 3, 0);
    let plan = Plan::new(Arch::Sm90a, shape(SIZES, 16)).unwrap();
    let given = inputs(&t, &[0, 3], None, &[false]);
    for (rows, cols, states, arg) in
        [(2, 32, 768, "out"), (3, 31, 768, "out"), (3, 32, 767, "final_states"), (3, 32, 0, "final_states")]
    {
        let (mut out, mut state) =
            (Padded::<f32>::poisoned(rows, cols, 1), Padded::<f32>::poisoned(1, states, 1));
        assert_refuses(plan.reference(&given, &mut out.view_mut(), &mut state.view_mut()), arg);
        assert_biteq("untouched", &out.values(), &Padded::poisoned(rows, cols, 1).values());
        assert_biteq("untouched", &state.values(), &Padded::poisoned(1, states, 1).values());
    }
}
