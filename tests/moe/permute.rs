//! `moe/permute`.

use proptest::prelude::*;
use vt_kernels::moe::permute::{Plan, Shape};
use vt_kernels::{Arch, Rows};

use crate::support::padded::assert_refuses;
use crate::support::strategies::Rng;

fn permute(n_experts: usize, top_k: usize, ids: &[u32]) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let (mut offsets, mut source, mut position) =
        (vec![7; n_experts + 1], vec![7; ids.len()], vec![7; ids.len()]);
    let rows = Rows::new("ids", ids, ids.len() / top_k, top_k).unwrap();
    let plan = Plan::new(Arch::Sm90a, Shape { n_experts, top_k }).unwrap();
    plan.reference(rows, &mut offsets, &mut source, &mut position).unwrap();
    (offsets, source, position)
}

mod vs_reference {
    use super::*;

    /// A stable sort of the slots by expert.
    fn check(n_experts: usize, top_k: usize, ids: &[u32]) {
        let (offsets, source, position) = permute(n_experts, top_k, ids);
        let mut want: Vec<u32> = (0..ids.len() as u32).collect();
        want.sort_by_key(|slot| ids[*slot as usize]);
        assert_eq!(source, want);
        for (row, slot) in source.iter().enumerate() {
            assert_eq!(position[*slot as usize] as usize, row);
        }
        for (e, offset) in offsets.iter().enumerate() {
            assert_eq!(*offset as usize, ids.iter().filter(|id| (**id as usize) < e).count());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn is_a_stable_sort(seed: u64, tokens in 0usize..60, top_k in 1usize..7, n_experts in 1usize..40) {
            let mut rng = Rng::new(seed);
            let ids: Vec<u32> = (0..tokens * top_k).map(|_| rng.below(n_experts) as u32).collect();
            check(n_experts, top_k, &ids);
        }
    }

    #[test]
    fn one_expert_takes_all_and_many_slots() {
        check(128, 2, &[127; 200]);
        let mut rng = Rng::new(1);
        let ids: Vec<u32> = (0..70_002).map(|_| rng.below(128) as u32).collect();
        check(128, 6, &ids);
    }
}

mod controls {
    use super::*;

    #[test]
    fn an_unstable_order_is_seen() {
        let (_, source, _) = permute(2, 1, &[1, 0, 1, 0]);
        assert_ne!(source, [3, 1, 0, 2]);
        assert_eq!(source, [1, 3, 0, 2]);
    }
}

#[test]
fn errors_name_the_argument() {
    assert_refuses(Plan::new(Arch::Sm90a, Shape { n_experts: 0, top_k: 1 }), "n_experts");
    assert_refuses(Plan::new(Arch::Sm90a, Shape { n_experts: 1, top_k: 0 }), "top_k");
    let plan = Plan::new(Arch::Sm90a, Shape { n_experts: 3, top_k: 2 }).unwrap();
    let (mut offsets, mut source, mut position) = ([7; 4], [7; 2], [7; 2]);
    let mut call = |ids: &[u32], lens: (usize, usize, usize)| {
        let ids = Rows::new("ids", ids, 1, ids.len()).unwrap();
        plan.reference(ids, &mut offsets[..lens.0], &mut source[..lens.1], &mut position[..lens.2])
    };
    assert_refuses(call(&[0, 3], (4, 2, 2)), "ids");
    assert_refuses(call(&[0], (4, 2, 2)), "ids");
    assert_refuses(call(&[0, 1], (3, 2, 2)), "offsets");
    assert_refuses(call(&[0, 1], (4, 1, 2)), "source");
    assert_refuses(call(&[0, 1], (4, 2, 1)), "position");
    assert_eq!((offsets, source, position), ([7; 4], [7; 2], [7; 2]));
}
