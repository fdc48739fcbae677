//! Two runs in lock step: equal runs are equal, and the first tensor of a fault is named.

use vt_kernels::Arch;
use vt_model::backend::cpu::{Cpu, Options};
use vt_model::compare::{Report, lock_step};
use vt_model::engine::{Engine, EngineConfig, Request};
use vt_model::model::Model;

use crate::support::faulty::{Fault, Faulty};
use crate::support::models::{engine, lightning, roomy, weights};

fn requests() -> Vec<Request> {
    let long = (0..300u32).map(|i| 3 + i * 7 % 500).collect();
    [vec![1, 377, 376, 488, 28], long, vec![1]].into_iter().map(|prompt| Request::greedy(prompt, 3)).collect()
}

fn run(left: (Options, EngineConfig), right: (Options, EngineConfig)) -> Report {
    let weights = weights(&lightning());
    let engines = [left, right].map(|(options, config)| engine(&weights, options, config));
    let [mut left, mut right] = engines;
    lock_step(&mut left, &mut right, &requests(), &mut || ()).unwrap()
}

mod vs_reference {
    use super::*;

    #[test]
    fn batch_and_chunks_change_no_bit() {
        for arch in [Arch::Sm90a, Arch::Sm121a] {
            let options = Options { arch, ..Options::default() };
            let alone = EngineConfig { max_seqs: 1, max_prefill_tokens: 128, block_size: 1, kv_blocks: 400 };
            let report = run((options, roomy()), (options, alone));
            assert!(report.equal() && report.first.is_none(), "{:?}", report.first);
            assert_eq!((report.tokens, report.tokens_differ), (9, 0));
            let elements: usize = report.tensors.iter().map(|t| t.elements).sum();
            assert!(elements > 1_000_000, "{elements}");
        }
    }

    /// FP8 products keep 13 fraction bits on one chip and 25 on the other.
    #[test]
    fn chips_differ_first_in_the_first_fp8_product() {
        let other = Options { arch: Arch::Sm90a, ..Options::default() };
        let report = run((Options::default(), roomy()), (other, roomy()));
        let first = report.first.as_ref().unwrap();
        assert_eq!((first.layer, first.operation), (Some(0), "in_proj"));
        assert_ne!(first.left.bits, first.right.bits);
        assert!(!report.equal() && report.layers().len() == 11);
    }
}

mod controls {
    use super::*;

    #[test]
    fn a_fault_is_named() {
        let weights = weights(&lightning());
        let faulty = |fault| {
            let model =
                Model::new(Faulty { cpu: Cpu::new(Options::default()), fault }, weights.clone()).unwrap();
            Engine::new(model, EngineConfig { max_prefill_tokens: 128, ..roomy() }).unwrap()
        };
        for (fault, expected) in [
            (Fault::None, None),
            (Fault::WrongNormGroup, Some((Some(0), "gated_norm"))),
            (Fault::ScaleTwice, Some((Some(1), "moe_out"))),
            (Fault::DroppedCarry, Some((Some(0), "scan"))),
        ] {
            let mut left = engine(&weights, Options::default(), roomy());
            let report = lock_step(&mut left, &mut faulty(fault), &requests(), &mut || ()).unwrap();
            assert_eq!(report.first.map(|d| (d.layer, d.operation)), expected, "{fault:?}");
        }
    }
}

#[test]
fn an_engine_that_was_used_is_refused() {
    let weights = weights(&lightning());
    let [mut left, mut right] = [0; 2].map(|_| engine(&weights, Options::default(), roomy()));
    left.add(Request::greedy(vec![1], 1)).unwrap();
    assert!(lock_step(&mut left, &mut right, &requests(), &mut || ()).is_err());
}
