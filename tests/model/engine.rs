//! The engine: bits do not depend on the batch, memory is freed and zeroed, bad requests are refused.

use vt_kernels::Arch;
use vt_model::backend::cpu::Options;
use vt_model::engine::{EngineConfig, Finish, Request, Sampling};
use vt_model::error::Error;

use crate::support::models::{engine, goldens, ids, lightning, requests, roomy, run, weights};
use crate::support::oracle::root;

/// Eleven prompts, the longest of three scan chunks.
fn lightning_requests() -> Vec<Request> {
    let mut requests = requests(&goldens(&root().join("tests/data/golden_lightning_act_f32_cpu.json")));
    requests.truncate(11);
    requests
}

fn message(result: Result<impl Sized, Error>) -> String {
    match result {
        Ok(_) => panic!("expected an error"),
        Err(error) => error.to_string(),
    }
}

mod vs_reference {
    use super::*;

    /// Tokens and log-probabilities, by bits, whatever shares the batch and however prompts are cut.
    #[test]
    fn alone_in_batch_in_chunks_in_any_order() {
        let weights = weights(&lightning());
        let requests = lightning_requests();
        for arch in [Arch::Sm90a, Arch::Sm121a] {
            let options = Options { arch, ..Options::default() };
            let all = run(&mut engine(&weights, options, roomy()), &requests);
            for config in [
                EngineConfig { max_seqs: 1, ..roomy() },
                EngineConfig { max_prefill_tokens: 128, ..roomy() },
                EngineConfig { max_seqs: 3, block_size: 1, kv_blocks: 1500, max_prefill_tokens: 256 },
                EngineConfig { block_size: 64, kv_blocks: 20, ..roomy() },
            ] {
                let name = format!("{config:?}");
                assert_eq!(run(&mut engine(&weights, options, config), &requests), all, "{name}");
            }
            let reversed: Vec<_> = requests.iter().rev().cloned().collect();
            let mut got = run(&mut engine(&weights, options, roomy()), &reversed);
            got.reverse();
            let ids = |rows: &[Vec<vt_model::engine::Token>]| -> Vec<Vec<(u32, u32)>> {
                rows.iter().map(|row| row.iter().map(|t| (t.id, t.logprob.to_bits())).collect()).collect()
            };
            assert_eq!(ids(&got), ids(&all));
        }
    }

    /// A slot and pages used before give the bits of fresh ones.
    #[test]
    fn reused_memory_is_as_fresh() {
        let weights = weights(&lightning());
        let requests = lightning_requests();
        let config = EngineConfig { max_seqs: 2, kv_blocks: 60, ..roomy() };
        let fresh: Vec<_> = requests
            .iter()
            .map(|r| {
                let mut engine = engine(&weights, Options::default(), config.clone());
                ids(&run(&mut engine, std::slice::from_ref(r)))
            })
            .collect();
        let mut used = engine(&weights, Options::default(), config);
        for (request, want) in requests.iter().zip(&fresh) {
            assert_eq!(&ids(&run(&mut used, std::slice::from_ref(request))), want);
            assert_eq!(used.free_memory(), (60, 2));
        }
    }

    #[test]
    fn sampling_is_reproducible_and_independent_of_the_batch() {
        let weights = weights(&lightning());
        let sampling = Sampling {
            temperature: 1.3,
            top_k: Some(50),
            top_p: 0.95,
            min_p: 0.01,
            seed: 7,
            repetition_penalty: 1.1,
            presence_penalty: 0.2,
            frequency_penalty: 0.1,
        };
        let requests: Vec<_> = lightning_requests()
            .into_iter()
            .zip(0..)
            .map(|(r, seed)| Request { sampling: Sampling { seed, ..sampling }, ..r })
            .collect();
        let batch = ids(&run(&mut engine(&weights, Options::default(), roomy()), &requests));
        let mut alone = engine(&weights, Options::default(), EngineConfig { max_seqs: 1, ..roomy() });
        assert_eq!(ids(&run(&mut alone, &requests)), batch);
        let other = Request { sampling: Sampling { seed: 99, ..sampling }, ..requests[0].clone() };
        let mut engine = engine(&weights, Options::default(), roomy());
        assert_ne!(ids(&run(&mut engine, &[other]))[0], batch[0]);
    }
}

#[test]
fn requests_join_and_leave_while_others_run() {
    let weights = weights(&lightning());
    let requests = lightning_requests();
    let want = ids(&run(&mut engine(&weights, Options::default(), roomy()), &requests));
    let mut engine = engine(&weights, Options::default(), roomy());
    let first = engine.add(requests[0].clone()).unwrap();
    let dropped = engine.add(requests[1].clone()).unwrap();
    let mut got = Vec::new();
    for _ in 0..3 {
        got.extend(engine.step().unwrap());
    }
    engine.remove(dropped).unwrap();
    let late = engine.add(requests[2].clone()).unwrap();
    got.extend(engine.tokens().map(|token| token.unwrap()));
    let of = |id| -> Vec<u32> { got.iter().filter(|t| t.request == id).map(|t| t.id).collect() };
    assert_eq!(of(first), want[0]);
    assert_eq!(of(dropped), want[1][..3]);
    assert_eq!(of(late), want[2]);
    assert_eq!(engine.free_memory(), (512, 16));
    assert!(message(engine.remove(dropped)).contains("not waiting or running"));
}

#[test]
fn stop_length_and_no_tokens() {
    let weights = weights(&lightning());
    let mut engine = engine(&weights, Options::default(), roomy());
    let base = lightning_requests()[0].clone();
    let want = ids(&run(&mut engine, std::slice::from_ref(&base))).remove(0);
    let stop = Request { stop: vec![want[4]], ..base.clone() };
    let tokens = run(&mut engine, &[stop]).remove(0);
    let until = want.iter().position(|id| *id == want[4]).unwrap();
    assert_eq!(tokens.len(), until + 1);
    assert_eq!(tokens[until].finish, Some(Finish::Stop));
    let tokens = run(&mut engine, &[Request { max_tokens: 1, ..base.clone() }]).remove(0);
    assert_eq!((tokens.len(), tokens[0].finish), (1, Some(Finish::Length)));
    assert_eq!(tokens[0].top.len(), 2);
    assert_eq!(tokens[0].top[0].0, tokens[0].id);
    assert_eq!(tokens[0].top[0].1.to_bits(), tokens[0].logprob.to_bits());
    assert!(run(&mut engine, &[Request { max_tokens: 0, ..base }])[0].is_empty());
    assert!(engine.step().unwrap().is_empty());
}

#[test]
fn a_forced_token_is_what_the_next_step_sees() {
    let weights = weights(&lightning());
    let base = lightning_requests()[0].clone();
    let mut engine = engine(&weights, Options::default(), roomy());
    let id = engine.add(base.clone()).unwrap();
    assert!(message(engine.force(id, 5)).contains("no output token"));
    engine.step().unwrap();
    assert!(message(engine.force(id, 512)).contains("expected below 512"));
    engine.force(id, 300).unwrap();
    let next = engine.step().unwrap().remove(0);
    engine.remove(id).unwrap();
    let prompt = [&base.prompt[..], &[300]].concat();
    let fresh = run(&mut engine, &[Request { prompt, ..base }]).remove(0).remove(0);
    assert_eq!(next.id, fresh.id);
    assert!((next.logprob - fresh.logprob).abs() < 0.1, "{next:?} {fresh:?}");
}

/// Requests wait for pages in the order they came; none is started that could not end.
#[test]
fn scarce_pages_are_waited_for() {
    let weights = weights(&lightning());
    let requests = lightning_requests();
    let want = ids(&run(&mut engine(&weights, Options::default(), roomy()), &requests));
    let config = EngineConfig { kv_blocks: 26, ..roomy() };
    let mut engine = engine(&weights, Options::default(), config);
    assert_eq!(ids(&run(&mut engine, &requests)), want);
    assert_eq!(engine.progress().to_prefill, 0);
    assert_eq!(engine.progress().prefilled, requests.iter().map(|r| r.prompt.len()).sum::<usize>());
}

mod errors {
    use super::*;

    #[test]
    fn name_the_argument() {
        let weights = weights(&lightning());
        let mut engine = engine(&weights, Options::default(), EngineConfig { kv_blocks: 4, ..roomy() });
        let base = Request::greedy(vec![1, 2, 3], 4);
        let sampling = |sampling| Request { sampling, ..base.clone() };
        let default = Sampling::default();
        for (request, expected) in [
            (Request { prompt: vec![], ..base.clone() }, "prompt: no tokens"),
            (Request { prompt: vec![1, 512], ..base.clone() }, "prompt: id 512 at 1, expected below 512"),
            (Request { max_tokens: 63, ..base.clone() }, "kv_blocks = 4"),
            (Request { max_tokens: usize::MAX, ..base.clone() }, "kv_blocks = 4"),
            (Request { top_n: 21, ..base.clone() }, "top_n: 21"),
            (sampling(Sampling { temperature: -1.0, ..default }), "temperature: -1"),
            (sampling(Sampling { temperature: f32::NAN, ..default }), "temperature: NaN"),
            (sampling(Sampling { top_p: 0.0, ..default }), "top_p: 0"),
            (sampling(Sampling { min_p: 1.5, ..default }), "min_p: 1.5"),
            (sampling(Sampling { top_k: Some(0), ..default }), "top_k: 0"),
            (sampling(Sampling { repetition_penalty: 0.0, ..default }), "repetition_penalty: 0"),
            (sampling(Sampling { presence_penalty: f32::INFINITY, ..default }), "presence_penalty: inf"),
        ] {
            let got = message(engine.add(request));
            assert!(got.contains(expected), "{got}, expected {expected}");
        }
        assert!(engine.is_idle());
        assert!(engine.add(Request { max_tokens: 62, ..base }).is_ok());
    }

    #[test]
    fn sizes_of_an_engine() {
        use vt_model::backend::cpu::Cpu;
        use vt_model::engine::Engine;
        use vt_model::model::Model;
        let weights = weights(&lightning());
        for (config, expected) in [
            (EngineConfig { block_size: 0, ..roomy() }, "block_size: 0"),
            (EngineConfig { kv_blocks: 0, ..roomy() }, "kv_blocks: 0"),
            (EngineConfig { max_seqs: 0, ..roomy() }, "max_seqs: 0"),
            (EngineConfig { max_prefill_tokens: 127, ..roomy() }, "max_prefill_tokens: 127, expected 128"),
            (EngineConfig { block_size: usize::MAX, ..roomy() }, "block_size"),
            (EngineConfig { block_size: 1 << 30, kv_blocks: 1 << 30, ..roomy() }, "kv_blocks * block_size"),
            (EngineConfig { max_seqs: 1 << 30, ..roomy() }, "max_seqs"),
        ] {
            let model = Model::new(Cpu::new(Options::default()), weights.clone()).unwrap();
            assert!(message(Engine::new(model, config)).contains(expected));
        }
    }
}
