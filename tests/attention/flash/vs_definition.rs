//! Bit for bit against the pseudo-code of the documentation, a row at a time, with every block and split of the
//! sequence, seen or not, and MMA steps by the definition.

use half::bf16;
use proptest::prelude::*;
use vt_kernels::attention::KvElement;
use vt_kernels::format::E4m3;
use vt_kernels::math::{exp2, table::LOG2_E};
use vt_kernels::mma::{Accumulator, Format, Instruction, Operand, Unit};
use vt_kernels::{Arch, Element};

use super::{Setup, Tokens, setup};
use crate::support::biteq::biteq;
use crate::support::strategies::any_bf16;

fn mma(unit: &Unit, c: f32, a: &[bf16], b: &[bf16]) -> f32 {
    let words = |x: &[bf16]| -> Vec<u32> {
        let padded = x.len().next_multiple_of(16);
        x.iter().map(|x| u32::from(x.to_bits())).chain(std::iter::repeat(0)).take(padded).collect()
    };
    let (a, b) = (words(a), words(b));
    let operand = |bits| Operand { format: Format::Bf16, bits, scale: None };
    f32::from_bits(unit.dot(operand(&a), operand(&b), c.to_bits()).unwrap())
}

fn base(m: f32) -> f32 {
    if m == f32::NEG_INFINITY { 0.0 } else { m }
}

/// The output of head `h` of the query at `position`, among `len` keys.
fn definition<KV: KvElement>(
    setup: &Setup,
    tokens: &Tokens<KV>,
    len: usize,
    position: usize,
    h: usize,
) -> Vec<f32> {
    let unit = Unit::new(setup.arch, Instruction::MmaK16, Accumulator::F32).unwrap();
    let hd = setup.shape.head_dim;
    let g = h / (setup.shape.n_heads / setup.shape.n_kv_heads);
    let q = &tokens.q[position * setup.q_dim() + h * hd..][..hd];
    let row = |x: &[KV], j: usize| -> Vec<bf16> {
        x[j * setup.kv_dim() + g * hd..][..hd].iter().map(|x| x.to_bf16()).collect()
    };
    let sees = |j: usize| j < len && setup.visible(position).contains(&j);
    let scale = setup.softmax_scale * setup.k_scale * LOG2_E;
    let (mut big_m, mut big_l, mut big_o) = (f32::NEG_INFINITY, 0.0f32, vec![0.0f32; hd]);
    for split in 0..len.div_ceil(512) {
        let (mut m, mut l, mut o) = (f32::NEG_INFINITY, 0.0f32, vec![0.0f32; hd]);
        for block in split * 8..(split + 1) * 8 {
            let key = |j: usize| block * 64 + j;
            let score = |j: usize| match sees(key(j)) {
                true => mma(&unit, 0.0, q, &row(&tokens.k, key(j))) * scale,
                false => f32::NEG_INFINITY,
            };
            let s: Vec<f32> = (0..64).map(score).collect();
            let m_new = s.iter().fold(m, |m, &s| m.max(s));
            let alpha = exp2(m - base(m_new));
            let p: Vec<f32> = s.iter().map(|s| exp2(s - base(m_new))).collect();
            let lane = |c: usize| (0..64).filter(|j| j / 2 % 4 == c).fold(0.0, |sum, j| sum + p[j]);
            let sum = (lane(0) + lane(2)) + (lane(1) + lane(3));
            l = l.mul_add(alpha, sum);
            let p: Vec<bf16> = p.into_iter().map(Element::from_f32).collect();
            let value = |j: usize| if sees(key(j)) { row(&tokens.v, key(j)) } else { vec![bf16::ZERO; hd] };
            let v: Vec<Vec<bf16>> = (0..64).map(value).collect();
            for (d, o) in o.iter_mut().enumerate() {
                let column: Vec<bf16> = v.iter().map(|v| v[d]).collect();
                *o = mma(&unit, *o * alpha, &p, &column);
            }
            m = m_new;
        }
        let m_new = big_m.max(m);
        let (a, b) = (exp2(big_m - base(m_new)), exp2(m - base(m_new)));
        big_l = big_l.mul_add(a, l * b);
        big_o.iter_mut().zip(o).for_each(|(big, o)| *big = big.mul_add(a, o * b));
        big_m = m_new;
    }
    let inverse = setup.v_scale / if big_l == 0.0 { 1.0 } else { big_l };
    big_o.into_iter().map(|o| Element::from_f32(o.mul_add(inverse, 0.0))).collect()
}

fn check<KV: KvElement>(
    setup: &Setup,
    tokens: &Tokens<KV>,
    len: usize,
    queries: usize,
) -> Result<(), String> {
    let positions = len - queries..len;
    let heads = positions.clone().flat_map(|p| (0..setup.shape.n_heads).map(move |h| (p, h)));
    let want: Vec<f32> = heads.flat_map(|(p, h)| definition(setup, tokens, len, p, h)).collect();
    biteq(&format!("{setup:?} len {len}"), &setup.alone(tokens, positions), &want)
}

fn shapes() -> impl Strategy<Value = (Setup, usize, usize)> {
    let heads = prop::sample::select(vec![(1, 1), (2, 1), (3, 1), (2, 2), (6, 2)]);
    let window = prop::option::of(prop::sample::select(vec![1usize, 5, 64, 100, 600]));
    let block_size = prop::sample::select(vec![1usize, 3, 16, 256]);
    let len = prop_oneof![4 => 1usize..130, 2 => 505usize..520, 2 => 570usize..660, 1 => 1020usize..1030];
    let arch = prop::sample::select(vec![Arch::Sm90a, Arch::Sm121a]);
    (heads, 1usize..5, window, block_size, len, 1usize..4, arch).prop_map(
        |((n_heads, n_kv_heads), eighths, window, block_size, len, queries, arch)| {
            let mut setup = Setup { arch, ..setup(n_heads, n_kv_heads, eighths * 8) };
            (setup.shape.window, setup.shape.block_size) = (window, block_size);
            (setup, len, queries.min(len))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn bf16_cache((setup, len, queries) in shapes(), seed in any::<u64>()) {
        check(&setup, &Tokens::<bf16>::random(&setup, len, seed), len, queries).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn fp8_cache((setup, len, queries) in shapes(), seed in any::<u64>(), k_scale in 0.1f32..2.0, v_scale in 0.1f32..2.0) {
        let setup = Setup { k_scale, v_scale, ..setup };
        check(&setup, &Tokens::<E4m3>::random(&setup, len, seed), len, queries).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn any_bits(
        (setup, len, queries) in shapes(),
        seed in any::<u64>(),
        odd in prop::collection::vec((0usize..3, any::<prop::sample::Index>(), any_bf16()), 1..12),
        softmax_scale in prop::sample::select(vec![0.0f32, -0.5, 1e-38, 1.0, 1e30]),
    ) {
        let setup = Setup { softmax_scale, ..setup };
        let mut tokens = Tokens::<bf16>::random(&setup, len, seed);
        for (which, at, bits) in odd {
            let x = [&mut tokens.q, &mut tokens.k, &mut tokens.v].into_iter().nth(which).unwrap();
            let at = at.index(x.len());
            x[at] = bits;
        }
        check(&setup, &tokens, len, queries).map_err(TestCaseError::fail)?;
    }
}
