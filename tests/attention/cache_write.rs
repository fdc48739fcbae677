//! `attention/cache_write`: quantised rows land in their slots, and nowhere else.

use half::bf16;
use proptest::prelude::*;
use vt_kernels::attention::KvElement;
use vt_kernels::attention::cache_write::{Plan, Shape};
use vt_kernels::format::E4m3;
use vt_kernels::{Arch, Element, Error, Result, Rows, RowsMut};

use crate::support::biteq::biteq;
use crate::support::strategies::{Rng, any_bf16};

const SHAPE: Shape = Shape { n_kv_heads: 2, head_dim: 8 };
const COLS: usize = 16;

/// Bytes of both caches after a write; `stride` is that of everything, padding included in what is returned.
fn write<KV: KvElement>(
    (k, v): (&[bf16], &[bf16]),
    slots: &[i64],
    (n_slots, stride): (usize, usize),
    fill: KV,
    (k_scale, v_scale): (f32, f32),
) -> (Result<()>, Vec<KV>, Vec<KV>) {
    let (mut k_cache, mut v_cache) = (vec![fill; n_slots * stride], vec![fill; n_slots * stride]);
    let result = Plan::new(Arch::Sm90a, SHAPE).unwrap().reference(
        Rows::strided("k", k, slots.len(), COLS, stride).unwrap(),
        Rows::strided("v", v, slots.len(), COLS, stride).unwrap(),
        slots,
        &mut RowsMut::strided("k_cache", &mut k_cache, n_slots, COLS, stride).unwrap(),
        &mut RowsMut::strided("v_cache", &mut v_cache, n_slots, COLS, stride).unwrap(),
        k_scale,
        v_scale,
    );
    (result, k_cache, v_cache)
}

fn bytes<T: bytemuck::Pod>(x: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(x).to_vec()
}

/// Slots in a random order, some of them −1.
fn some_slots(tokens: usize, n_slots: usize, seed: u64) -> Vec<i64> {
    let mut rng = Rng::new(seed);
    let mut all: Vec<i64> = (0..n_slots as i64).collect();
    (0..n_slots).for_each(|i| all.swap(i, i + rng.below(n_slots - i)));
    all[..tokens].iter().map(|&slot| if rng.below(5) == 0 { -1 } else { slot }).collect()
}

mod vs_definition {
    use super::*;

    fn expected<KV: KvElement>(
        x: &[bf16],
        slots: &[i64],
        n: (usize, usize),
        fill: KV,
        one: impl Fn(bf16) -> KV,
    ) -> Vec<KV> {
        let mut cache = vec![fill; n.0 * n.1];
        for (token, &slot) in slots.iter().enumerate().filter(|(_, slot)| **slot >= 0) {
            for c in 0..COLS {
                cache[slot as usize * n.1 + c] = one(x[token * n.1 + c]);
            }
        }
        cache
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn any_bits_any_stride(
            (tokens, n_slots) in (0usize..7).prop_flat_map(|t| (Just(t), t..12usize)),
            pad in 0usize..3,
            seed in any::<u64>(),
            x in prop::collection::vec(any_bf16(), 2 * 7 * (COLS + 3)),
            scales in (0.01f32..4.0, 0.01f32..4.0),
        ) {
            let n = (n_slots, COLS + pad);
            let (k, v) = x.split_at(7 * (COLS + 3));
            let slots = some_slots(tokens, n_slots, seed);

            let one = |x: bf16| if x.is_nan() { bf16::from_bits(0x7fff) } else { x };
            let (result, k_cache, v_cache) = write((k, v), &slots, n, bf16::NEG_INFINITY, (1.0, 1.0));
            prop_assert!(result.is_ok());
            for (got, x) in [(k_cache, k), (v_cache, v)] {
                let want = expected(x, &slots, n, bf16::NEG_INFINITY, one);
                biteq("bf16", &got, &want).map_err(TestCaseError::fail)?;
            }

            let fill = E4m3::from_bits(0xff);
            let (result, k_cache, v_cache) = write((k, v), &slots, n, fill, scales);
            prop_assert!(result.is_ok());
            for (got, x, scale) in [(k_cache, k, scales.0), (v_cache, v, scales.1)] {
                let want = expected(x, &slots, n, fill, |x| E4m3::from_f32(Element::to_f32(x) / scale));
                biteq("e4m3", &bytes(&got), &bytes(&want)).map_err(TestCaseError::fail)?;
            }
        }
    }

    #[test]
    fn e4m3_rounds_to_even_saturates_and_keeps_nan() {
        let mut k = vec![bf16::ZERO; COLS];
        let values = [17.0, 19.0, 1e30, f32::NEG_INFINITY, f32::NAN, -0.0, 448.0, 0.0009765625];
        k.iter_mut().zip(values).for_each(|(k, x)| *k = bf16::from_f32(x));
        let (result, k_cache, v_cache) = write((&k, &k), &[0], (1, COLS), E4m3::default(), (1.0, 2.0));
        result.unwrap();
        assert_eq!(bytes(&k_cache[..8]), [0x58, 0x5a, 0x7e, 0xfe, 0x7f, 0x80, 0x7e, 0x00]);
        assert_eq!(v_cache[6].to_f32(), 224.0);
    }
}

mod errors {
    use super::*;

    fn refused(slots: &[i64], scales: (f32, f32)) -> Error {
        let k = vec![bf16::ONE; 3 * COLS];
        let fill = E4m3::from_bits(0x11);
        let (result, k_cache, v_cache) = write((&k, &k), slots, (4, COLS), fill, scales);
        assert!(k_cache.iter().chain(&v_cache).all(|&x| x == fill), "written although refused");
        result.unwrap_err()
    }

    #[test]
    fn slots() {
        for slots in [[0, 4, 1], [0, -2, 1], [0, i64::MAX, 1], [0, i64::MIN, 1], [2, 1, 2]] {
            let error = refused(&slots, (1.0, 1.0));
            assert!(matches!(error, Error::Value { arg: "slots", .. }), "{error}");
        }
        let k = vec![bf16::ONE; 3 * COLS];
        assert!(write((&k, &k), &[-1, 3, -1], (4, COLS), bf16::ZERO, (1.0, 1.0)).0.is_ok());
    }

    #[test]
    fn scales() {
        for bad in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(matches!(refused(&[0, 1, 2], (bad, 1.0)), Error::Value { arg: "k_scale", .. }));
            assert!(matches!(refused(&[0, 1, 2], (1.0, bad)), Error::Value { arg: "v_scale", .. }));
        }
        let k = vec![bf16::ONE; COLS];
        let (result, k_cache, _) = write((&k, &k), &[0], (1, COLS), bf16::ZERO, (2.0, 1.0));
        assert!(matches!(result, Err(Error::Value { arg: "k_scale", .. })), "{result:?}");
        assert!(k_cache.iter().all(|&x| x == bf16::ZERO));
    }

    #[test]
    fn shapes_and_architectures() {
        let plan = Plan::new(Arch::Sm121a, SHAPE).unwrap();
        let k = [bf16::ONE; 2 * COLS];
        let rows = |n: usize, cols: usize| Rows::new("k", &k[..n * cols], n, cols).unwrap();
        let (mut a, mut b) = (vec![bf16::ZERO; 4 * COLS], vec![bf16::ZERO; 4 * COLS]);
        let mut try_with = |k: Rows<'_, bf16>, v, slots: &[i64], caches: (usize, usize)| {
            let k_cache = &mut RowsMut::new("k_cache", &mut a[..caches.0 * COLS], caches.0, COLS).unwrap();
            let v_cache = &mut RowsMut::new("v_cache", &mut b[..caches.1 * COLS], caches.1, COLS).unwrap();
            match plan.reference(k, v, slots, k_cache, v_cache, 1.0, 1.0) {
                Err(Error::Shape { arg, .. }) => arg,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(try_with(rows(2, 8), rows(2, COLS), &[0, 1], (4, 4)), "k");
        assert_eq!(try_with(rows(2, COLS), rows(1, COLS), &[0, 1], (4, 4)), "v");
        assert_eq!(try_with(rows(2, COLS), rows(2, COLS), &[0], (4, 4)), "slots");
        assert_eq!(try_with(rows(2, COLS), rows(2, COLS), &[0, 1], (4, 3)), "v_cache");
        for shape in [
            Shape { n_kv_heads: 0, ..SHAPE },
            Shape { head_dim: 12, ..SHAPE },
            Shape { n_kv_heads: usize::MAX, ..SHAPE },
        ] {
            assert!(matches!(Plan::new(Arch::Sm90a, shape), Err(Error::Value { .. })));
        }
        assert!(matches!(Plan::new(Arch::Sm89, SHAPE), Err(Error::Unsupported(_))));
    }
}

mod controls {
    use super::*;

    #[test]
    fn a_wrong_slot_or_scale_is_seen() {
        let k = Rng::new(1).normals_bf16(3 * COLS, 1.0);
        let cache =
            |slots: &[i64], scale| bytes(&write((&k, &k), slots, (4, COLS), E4m3::default(), (scale, 1.0)).1);
        let right = cache(&[0, 2, 3], 0.5);
        assert!(biteq("slot", &cache(&[0, 1, 3], 0.5), &right).is_err());
        assert!(biteq("scale twice", &cache(&[0, 2, 3], 0.25), &right).is_err());
        assert!(biteq("padding written", &cache(&[0, 2, -1], 0.5), &right).is_err());
    }
}
