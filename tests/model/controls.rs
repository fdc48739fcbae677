//! Negative controls: each fault makes the comparison with the golden, or with a trace, fail.

use vt_model::backend::cpu::{Cpu, Options};
use vt_model::engine::{Engine, EngineConfig, Request};
use vt_model::model::Model;
use vt_model::trace::Record;

use crate::support::faulty::{Fault, Faulty};
use crate::support::models::{
    Golden, follows, goldens, ids, lightning, requests, roomy, run, weight_only, weights,
};
use crate::support::oracle::root;

fn faulty(fault: Fault, options: Options, config: EngineConfig) -> Engine<Faulty> {
    let model = Model::new(Faulty { cpu: Cpu::new(options), fault }, weights(&lightning())).unwrap();
    Engine::new(model, config).unwrap()
}

/// The gate over the goldens that are in the repository, prompts alone and cut into chunks.
fn gate(fault: Fault) -> Result<usize, String> {
    let goldens = goldens(&root().join("tests/data/golden_lightning_f32_cpu.json"));
    let config = EngineConfig { max_seqs: 1, max_prefill_tokens: 128, ..roomy() };
    let got = run(&mut faulty(fault, weight_only(), config), &requests(&goldens));
    let want: Vec<_> = goldens.iter().map(|g: &Golden| g.until(0.05)).collect();
    follows(&want, &ids(&got))
}

#[test]
fn without_a_fault_the_gate_passes() {
    assert!(gate(Fault::None).unwrap() > 80);
}

#[test]
fn each_fault_fails_the_gate() {
    use Fault::*;
    for fault in [DroppedCarry, StaleToken, WrongNormGroup, ScaleTwice, BiasedRoutingWeight] {
        let result = gate(fault);
        assert!(result.is_err(), "{fault:?} was not caught: {result:?}");
    }
}

/// A trace names the operation in which a fault first shows.
#[test]
fn a_trace_names_the_first_operation() {
    use Fault::*;
    let prompt: Vec<u32> = (0..200).map(|i| 3 + i % 400).collect();
    let entries = |fault| {
        let config = EngineConfig { max_prefill_tokens: 128, ..roomy() };
        let mut engine = faulty(fault, Options::default(), config);
        engine.add(Request::greedy(prompt.clone(), 3)).unwrap();
        let mut record = Record::default();
        while !engine.is_idle() {
            engine.step_traced(&mut record).unwrap();
        }
        record.entries
    };
    let want = entries(None);
    for (fault, layer, operation) in [
        (DroppedCarry, Some(0), "scan"),
        (StaleToken, Option::None, "embedding"),
        (WrongNormGroup, Some(0), "gated_norm"),
        (ScaleTwice, Some(1), "moe_out"),
    ] {
        let got = entries(fault);
        let first = got.iter().zip(&want).find(|(got, want)| got != want).unwrap().0;
        assert_eq!((first.layer, first.operation), (layer, operation), "{fault:?}");
    }
}
