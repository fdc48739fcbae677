//! The token gate: verdicts, totals, exit codes, and a faulty model that it must refuse.

use vt_model::backend::cpu::Activations;
use vt_model::engine::{Engine, EngineConfig};
use vt_model::gate::{self, Answer, Comparison, Next, Precision, RowReport, Rules, Totals, Verdict};
use vt_model::golden::{Golden, Row};
use vt_model::model::Model;

use crate::support::faulty::{Fault, Faulty};
use crate::support::models::{engine, lightning, roomy, weight_only, weights};
use crate::support::oracle::root;

const RULES: Rules = Rules { noise_floor: 0.1, teacher_forced: false, max_tokens: usize::MAX };

fn row(margins: &[f32]) -> Row {
    let ids = (10..10 + margins.len() as u32).collect::<Vec<_>>();
    let second = ids.iter().map(|id| id + 100).collect();
    Row { prompt_ids: vec![1], ids, second, margin_nats: margins.to_vec(), ..Row::default() }
}

/// Feeds `answers` until the comparison stops.
fn compare(row: &Row, rules: Rules, answers: &[u32]) -> RowReport {
    let mut comparison = Comparison::new(0, row, rules);
    for id in answers {
        if comparison.push(Answer { id: *id, margin: Some(0.5) }) == Next::Stop {
            break;
        }
    }
    comparison.finish()
}

mod vs_definition {
    use super::*;

    #[test]
    fn each_verdict() {
        let golden = row(&[1.0, 0.05, 1.0, 1.0]);
        let verdict = |answers: &[u32]| compare(&golden, RULES, answers).verdict;
        assert_eq!(verdict(&[10, 11, 12, 13]), Verdict::StrictPass);
        assert_eq!(verdict(&[10, 99]), Verdict::NearTie);
        assert_eq!(verdict(&[10, 11, 99]), Verdict::Divergence);
        assert_eq!(verdict(&[10, 11]), Verdict::Short);
        assert_eq!(verdict(&[]), Verdict::Short);
        assert_eq!(compare(&row(&[]), RULES, &[]).verdict, Verdict::Short);
    }

    #[test]
    fn the_first_difference_is_told_and_ends_the_row() {
        let report = compare(&row(&[1.0, 0.05, 1.0]), RULES, &[10, 77, 12]);
        assert_eq!((report.expected, report.compared, report.matched), (3, 2, 1));
        let difference = report.differences[0];
        assert_eq!((difference.position, difference.got, difference.expected), (1, 77, 11));
        assert_eq!(
            (difference.second, difference.margin, difference.oracle_margin),
            (Some(111), Some(0.5), Some(0.05))
        );
        assert!(difference.near_tie);
    }

    #[test]
    fn teacher_forcing_goes_on_behind_a_difference() {
        let rules = Rules { teacher_forced: true, ..RULES };
        let golden = row(&[1.0, 0.05, 1.0, 0.05]);
        let report = compare(&golden, rules, &[10, 77, 12, 88]);
        assert_eq!((report.compared, report.matched, report.differences.len()), (4, 2, 2));
        assert_eq!(report.verdict, Verdict::NearTie);
        assert_eq!(compare(&golden, rules, &[10, 77, 88, 13]).verdict, Verdict::Divergence);
        let mut comparison = Comparison::new(0, &golden, rules);
        assert_eq!(comparison.push(Answer { id: 10, margin: None }), Next::Continue);
        assert_eq!(comparison.push(Answer { id: 77, margin: None }), Next::Feed(11));
    }

    #[test]
    fn without_margins_every_difference_is_a_divergence() {
        let golden = Row { margin_nats: vec![], second: vec![], ..row(&[1.0, 1.0]) };
        let report = compare(&golden, RULES, &[10, 77]);
        assert_eq!((report.verdict, report.differences[0].oracle_margin), (Verdict::Divergence, None));
    }

    #[test]
    fn exit_codes() {
        let golden = row(&[1.0, 0.05, 1.0]);
        let code = |answers: &[&[u32]], strict| {
            let reports: Vec<_> = answers.iter().map(|a| compare(&golden, RULES, a)).collect();
            Totals::of(&reports).exit_code(strict)
        };
        let (pass, tie, wrong, short): (&[u32], &[u32], &[u32], &[u32]) =
            (&[10, 11, 12], &[10, 77], &[77], &[10]);
        assert_eq!(code(&[pass, pass], false), 0);
        assert_eq!(code(&[pass, tie], false), 0);
        assert_eq!(code(&[pass, tie], true), 1);
        assert_eq!(code(&[pass, wrong, short], false), 1);
        assert_eq!(code(&[], false), 3);
        assert_eq!(code(&[&[]], false), 3);
        assert_eq!(code(&[pass, short], false), 4);
        assert_eq!(code(&[pass, &[]], false), 4);
    }

    #[test]
    fn precision_and_its_noise_floor() {
        let weights = weights(&lightning());
        let floor = |activations| Precision::of(&weights, activations).noise_floor();
        assert_eq!((floor(Activations::Checkpoint), floor(Activations::Bf16)), (0.5, 0.05));
        assert_eq!(Precision::Bf16.noise_floor(), 0.02);
    }
}

mod vs_transformers {
    use super::*;

    fn golden() -> Vec<Row> {
        let golden = Golden::load(&root().join("tests/data/golden_lightning_f32_cpu.json")).unwrap();
        golden.rows.into_iter().take(8).collect()
    }

    /// Decode, fresh prefill, together and alone: the same verdicts.
    #[test]
    fn the_embedded_checkpoint_passes_in_every_mode() {
        let rules = Rules { noise_floor: 0.05, max_tokens: 8, ..RULES };
        let (weights, rows) = (weights(&lightning()), golden());
        let run = |prefill: bool, alone: bool| {
            let mut engine = engine(&weights, weight_only(), roomy());
            let run = if prefill { gate::prefill } else { gate::decode };
            run(&mut engine, &rows, rules, alone, &mut || ()).unwrap()
        };
        let batch = run(false, false);
        let totals = Totals::of(&batch);
        assert_eq!((totals.exit_code(false), totals.divergence, totals.rows), (0, 0, 8));
        assert!(totals.compared > 30);
        assert_eq!(run(false, true), batch);
        assert_eq!(Totals::of(&run(true, false)).divergence, 0);
        assert_eq!(run(true, true), run(true, false));
    }

    mod controls {
        use super::*;

        #[test]
        fn a_faulty_model_diverges() {
            let faulty =
                Faulty { cpu: vt_model::backend::cpu::Cpu::new(weight_only()), fault: Fault::StaleToken };
            let model = Model::new(faulty, weights(&lightning())).unwrap();
            let mut engine = Engine::new(model, EngineConfig { max_seqs: 1, ..roomy() }).unwrap();
            let rules = Rules { noise_floor: 0.05, max_tokens: 8, ..RULES };
            let reports = gate::decode(&mut engine, &golden(), rules, true, &mut || ()).unwrap();
            assert_eq!(Totals::of(&reports).exit_code(false), 1);
        }
    }
}

#[test]
fn ids_beyond_the_vocabulary_are_refused() {
    let mut engine = engine(&weights(&lightning()), weight_only(), roomy());
    for golden in [
        Row { prompt_ids: vec![512], ids: vec![1], ..Row::default() },
        Row { prompt_ids: vec![1], ids: vec![512], ..Row::default() },
    ] {
        let rows = [golden];
        let error = gate::decode(&mut engine, &rows, RULES, false, &mut || ()).unwrap_err().to_string();
        assert!(error.contains("512"), "{error}");
    }
}
