//! Controls: the checks fail where the kernel and the formula disagree.

use half::bf16;
use vt_kernels::attention::KvElement;
use vt_kernels::format::E4m3;

use super::vs_paper::{Broken, check};
use super::{Setup, Tokens, setup};
use crate::support::biteq::biteq;

#[track_caller]
fn fails<KV: KvElement>(setup: Setup, len: usize, queries: usize, broken: Broken) {
    let tokens = Tokens::<KV>::random(&setup, len, 21);
    check(&setup, &tokens, len, queries, Broken::Nothing).unwrap();
    assert!(check(&setup, &tokens, len, queries, broken).is_err(), "{broken:?} was not seen");
}

#[test]
fn paper_sees_what_is_wrong() {
    fails::<bf16>(setup(8, 2, 64), 40, 1, Broken::HeadsRoundRobin);
    fails::<bf16>(setup(2, 1, 64), 40, 8, Broken::MaskOneLater);
    fails::<bf16>(setup(2, 1, 64), 40, 8, Broken::MaskOneEarlier);
    fails::<bf16>(setup(2, 1, 64), 600, 1, Broken::SplitDropped);
    let mut window = setup(2, 1, 64);
    window.shape.window = Some(30);
    fails::<bf16>(window, 80, 8, Broken::WindowOneLonger);
    let scaled = Setup { k_scale: 1.25, v_scale: 1.25, ..setup(2, 1, 64) };
    fails::<E4m3>(scaled, 80, 1, Broken::KeyScaleMissing);
    fails::<E4m3>(scaled, 80, 1, Broken::ValueScaleTwice);
}

#[test]
fn a_stale_key_is_seen() {
    let setup = setup(2, 1, 16);
    let mut tokens = Tokens::<bf16>::random(&setup, 40, 23);
    let right = setup.alone(&tokens, 39..40);
    tokens.k.copy_within(16..32, 32);
    assert!(biteq("out", &setup.alone(&tokens, 39..40), &right).is_err());
}
