//! A row's bits depend on its position and its keys alone: not on pages, chunks, batch or threads. What it does not
//! see does not reach it.

use half::{bf16, f16};
use vt_kernels::Arch;
use vt_kernels::attention::KvElement;
use vt_kernels::format::E4m3;

use super::{Part, Setup, Tokens, setup};
use crate::support::biteq::assert_biteq;
use crate::support::strategies::Rng;

const NAN: f32 = f32::from_bits(0x7fff_ffff);

fn windowed(window: usize) -> Setup {
    let mut setup = setup(4, 2, 8);
    setup.shape.window = Some(window);
    setup
}

#[test]
fn pages_of_every_size_in_any_order() {
    for len in [1, 64, 300, 530] {
        for base in [setup(4, 2, 16), windowed(100)] {
            let tokens = Tokens::<bf16>::random(&base, len, 3);
            let want = base.alone(&tokens, len / 2..len);
            for block_size in [1, 2, 7, 16, 64, 256, 1000] {
                let mut setup = base;
                setup.shape.block_size = block_size;
                for seed in 0..3 {
                    let got = setup.attend(&[tokens.part(len / 2..len)], seed).remove(0);
                    assert_biteq(&format!("pages of {block_size}, len {len}"), &got, &want);
                }
            }
        }
    }
}

/// Whole, in two chunks cut at each of `cuts`, and a token at a time.
fn cut<KV: KvElement>(setup: &Setup, len: usize, cuts: impl IntoIterator<Item = usize>) {
    let tokens = Tokens::<KV>::random(setup, len, 5);
    let whole = setup.alone(&tokens, 0..len);
    for at in cuts {
        let parts = [tokens.part(0..at), tokens.part(at..len)];
        assert_biteq(&format!("{setup:?} cut at {at}"), &setup.attend(&parts, 2).concat(), &whole);
    }
    let decodes: Vec<_> = (0..len).map(|p| tokens.part(p..p + 1)).collect();
    assert_biteq(&format!("{setup:?} decoded"), &setup.attend(&decodes, 3).concat(), &whole);
}

#[test]
fn whole_prompt_is_chunks_is_decode() {
    cut::<bf16>(&setup(4, 2, 16), 70, 0..=70);
    cut::<E4m3>(&setup(3, 1, 8), 66, 0..=66);
    cut::<bf16>(&windowed(9), 70, 0..=70);
    cut::<bf16>(&setup(2, 1, 8), 530, [1, 63, 64, 65, 300, 511, 512, 513, 529]);
    cut::<bf16>(&windowed(80), 530, [64, 100, 511, 512, 513]);
    cut::<bf16>(&Setup { arch: Arch::Sm121a, ..setup(32, 1, 8) }, 68, [1, 2, 33, 67]);
}

#[test]
fn alone_is_in_a_batch_of_prefills_and_decodes() {
    for setup in [setup(6, 2, 16), windowed(70)] {
        let tokens: Vec<_> = (0..5).map(|seed| Tokens::<bf16>::random(&setup, 530, seed)).collect();
        let ranges = [0..65, 529..530, 0..0, 40..64, 512..530];
        let mut parts: Vec<Part<'_, bf16>> =
            tokens.iter().zip(ranges).map(|(t, range)| t.part(range)).collect();
        let alone: Vec<_> = parts.iter().map(|p| setup.alone(p.tokens, p.queries.clone())).collect();
        for turn in 0..parts.len() {
            let batch = setup.attend(&parts, turn as u64);
            for (i, got) in batch.iter().enumerate() {
                assert_biteq(&format!("part {i}, turn {turn}"), got, &alone[(i + turn) % parts.len()]);
            }
            parts.rotate_left(1);
        }
    }
}

#[test]
fn other_outputs_are_the_same_rounded() {
    let setup = setup(2, 1, 16);
    let tokens = Tokens::<bf16>::random(&setup, 600, 7);
    let part = [tokens.part(570..600)];
    let (f32s, bf16s, f16s) =
        (&setup.attend(&part, 1)[0], setup.attend_in(&part, 1), setup.attend_in(&part, 1));
    assert_biteq("bf16", &bf16s[0], &f32s.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>());
    assert_biteq("f16", &f16s[0], &f32s.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>());
}

#[test]
fn nothing_at_all() {
    let setup = setup(2, 1, 8);
    assert!(setup.attend::<bf16>(&[], 0).is_empty());
    let tokens = Tokens::<bf16>::random(&setup, 4, 1);
    assert_eq!(setup.attend(&[tokens.part(0..0), tokens.part(3..3)], 0), [Vec::<f32>::new(), vec![]]);
}

#[test]
fn any_number_of_threads() {
    let setup = setup(8, 2, 16);
    let tokens = Tokens::<bf16>::random(&setup, 600, 9);
    let want = setup.alone(&tokens, 500..600);
    for threads in [1, 3, 8] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_biteq("out", &pool.install(|| setup.alone(&tokens, 500..600)), &want);
    }
}

#[test]
fn nan_reaches_the_rows_that_see_it() {
    for setup in [setup(4, 2, 8), windowed(20)] {
        let (hd, kv_dim, len) = (8, setup.kv_dim(), 140);
        let clean = Tokens::<bf16>::random(&setup, len, 11);
        let want = setup.alone(&clean, 0..len);
        for at in [0, 5, 63, 64, 100, 139] {
            // Key-value head 1, element 3.
            let place = at * kv_dim + hd + 3;
            let (mut key, mut value) = (clean.clone(), clean.clone());
            key.k[place] = bf16::NAN;
            value.v[place] = bf16::NAN;
            let (key, value) = (setup.alone(&key, 0..len), setup.alone(&value, 0..len));
            let (mut want_key, mut want_value) = (want.clone(), want.clone());
            for position in (0..len).filter(|&p| setup.visible(p).contains(&at)) {
                for head in [2, 3] {
                    let row = position * setup.q_dim() + head * hd;
                    want_key[row..row + hd].fill(NAN);
                    want_value[row + 3] = NAN;
                }
            }
            assert_biteq(&format!("key {at}"), &key, &want_key);
            assert_biteq(&format!("value {at}"), &value, &want_value);
        }
    }
}

fn widened(x: &[bf16]) -> Vec<f32> {
    x.iter().map(|x| x.to_f32()).collect()
}

#[test]
fn infinities() {
    let setup = setup(1, 1, 8);
    let len = 70;
    let mut tokens = Tokens::<bf16>::random(&setup, len, 13);
    tokens.q.fill(bf16::ONE);
    // Every score -inf: weights of 0.
    let mut nothing = tokens.clone();
    nothing.k.fill(bf16::NEG_INFINITY);
    assert_biteq("all -inf", &setup.alone(&nothing, 0..len), &vec![0.0; len * 8]);
    // The first block's scores -inf, as if it were not there for those that see more.
    let mut late = tokens.clone();
    late.k[..64 * 8].fill(bf16::NEG_INFINITY);
    let got = setup.alone(&late, 64..65);
    assert_biteq("one finite score", &got, &widened(&late.v[64 * 8..65 * 8]));
    // A score of +inf.
    let mut above = tokens.clone();
    above.k[10 * 8..11 * 8].fill(bf16::INFINITY);
    let got = setup.alone(&above, 0..len);
    assert_biteq("before", &got[..80], &setup.alone(&tokens, 0..10));
    assert_biteq("+inf", &got[80..], &vec![NAN; (len - 10) * 8]);
    // An infinite value.
    let mut value = tokens.clone();
    value.v[10 * 8 + 1] = bf16::NEG_INFINITY;
    let (got, mut want) = (setup.alone(&value, 0..len), setup.alone(&tokens, 0..len));
    (10..len).for_each(|p| want[p * 8 + 1] = f32::NEG_INFINITY);
    assert_biteq("infinite value", &got, &want);
}

#[test]
fn a_sum_that_vanishes_is_plus_zero() {
    let setup = setup(1, 1, 8);
    let mut tokens = Tokens::<bf16>::random(&setup, 1100, 14);
    tokens.q.fill(bf16::from_f32(8.0));
    tokens.k.fill(bf16::ZERO);
    tokens.v.fill(-bf16::from_bits(1));
    // Base-2 logits of 0 in the first split, of 98 in the second: the first one's sum underflows to -0.
    tokens.k[512 * 8..].fill(bf16::from_f32(3.0));
    tokens.v[512 * 8..].fill(bf16::ZERO);
    // Position 512 shares a tile with those after it, and a block with keys that it does not see.
    assert_biteq("out", &setup.alone(&tokens, 512..530), &[0.0; 18 * 8]);
}

#[test]
fn extreme_logits_choose_one_value() {
    let setup = setup(2, 1, 8);
    let mut rng = Rng::new(17);
    for len in [40, 600] {
        let mut tokens = Tokens::<bf16>::random(&setup, len, 15);
        tokens.q.fill(bf16::from_f32(1e18));
        for x in &mut tokens.k {
            *x = bf16::from_f32(-1e18 * (1.0 + rng.below(4) as f32));
        }
        let chosen = rng.below(len);
        tokens.k[chosen * 8..chosen * 8 + 8].fill(bf16::from_f32(1e18));
        let value = widened(&tokens.v[chosen * 8..chosen * 8 + 8]);
        assert_biteq("chosen", &setup.alone(&tokens, len - 1..len), &[value.clone(), value].concat());
    }
}

#[test]
fn equal_keys_average_powers_of_two_exactly() {
    let setup = setup(2, 1, 8);
    for len in [1, 2, 64, 128, 512, 1024] {
        let mut tokens = Tokens::<bf16>::random(&setup, len, 19);
        tokens.k.fill(bf16::ONE);
        for (at, v) in tokens.v.iter_mut().enumerate() {
            *v = bf16::from_f32((at / 8 % 2) as f32);
        }
        let want = if len == 1 { 0.0 } else { 0.5 };
        assert_biteq("mean", &setup.alone(&tokens, len - 1..len), &[want; 16]);
    }
}
