//! `vt gate`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use serde_json::json;
use vt_model::backend::cpu::Cpu;
use vt_model::engine::Engine;
use vt_model::gate::{self, Precision, RowReport, Rules, Totals};
use vt_model::golden::{Golden, Row};
use vt_model::tokenizer::Tokenizer;

use crate::load::{self, Arm, Sizes};
use crate::output::{Result, bar, fail, line, note};
use crate::prompts;

/// Compares tokens with a golden file. A row that differs where the oracle's own margin is under the noise floor is
/// a NEAR TIE; where the oracle was sure it is a DIVERGENCE.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the checkpoint
    #[arg(long, value_name = "DIR")]
    model: PathBuf,

    /// Golden file: a list of rows with prompt_ids, ids and margin_nats, or one that `vt golden` wrote
    #[arg(long, value_name = "FILE")]
    golden: PathBuf,

    /// Oracle margins under this are near ties; by default 0.02 for bf16, 0.05 if only weights are quantised, 0.5 if
    /// activations are too
    #[arg(long, value_name = "NATS")]
    noise_floor: Option<f32>,

    /// Feed the oracle's token behind a difference and go on; else the row ends there
    #[arg(long)]
    teacher_forced: bool,

    /// Refuse near ties
    #[arg(long)]
    strict: bool,

    /// What computes each token
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,

    /// Run one prompt at a time instead of all in one batch
    #[arg(long)]
    alone: bool,

    /// Compare at most N tokens of each row
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,

    /// Take only the first N prompts
    #[arg(long, value_name = "N", value_parser = load::size())]
    prompts: Option<usize>,

    #[command(flatten)]
    arm: Arm,

    #[command(flatten)]
    sizes: Sizes,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Print nothing to standard error but errors
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  vt gate --model DIR --golden golden.json
  vt gate --model DIR --golden golden.json --activations bf16 --teacher-forced --mode both
  vt gate --model DIR --golden golden.json --alone --prompts 1 --noise-floor 0 --strict

Exit status:
  0  strict pass, or near ties only
  1  divergence; with --strict, a near tie too
  2  wrong usage, or a golden or checkpoint that cannot be used
  3  nothing was compared
  4  short rows: fewer tokens than the golden holds";

/// `--mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Step by step from the state
    #[default]
    Decode,
    /// A fresh prefill for each token: no state is carried
    Prefill,
    /// Both, one after the other
    Both,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(floor) = args.noise_floor.filter(|floor| !(floor.is_finite() && *floor >= 0.0)) {
        return fail(format!("--noise-floor: {floor}, expected a finite number, at least 0"));
    }
    let golden = Golden::load(&args.golden)?;
    let rows = &golden.rows[..args.prompts.unwrap_or(usize::MAX).min(golden.rows.len())];
    let loaded = load::weights(&args.model, args.quiet)?;
    let weights = &loaded.weights;
    let tokenizer = prompts::tokenizer(&args.model)?;
    let precision = Precision::of(weights, args.arm.options().activations);
    let rules = Rules {
        noise_floor: args.noise_floor.unwrap_or(precision.noise_floor()),
        teacher_forced: args.teacher_forced,
        max_tokens: args.max_tokens.unwrap_or(usize::MAX),
    };
    let needs: Vec<_> =
        rows.iter().map(|row| (row.prompt_ids.len(), row.ids.len().min(rules.max_tokens))).collect();
    let mut sizes = args.sizes.clone();
    sizes.max_seqs = if args.alone { 1 } else { sizes.max_seqs };
    let config = sizes.config(&weights.config, &args.arm, &needs)?;
    let mut engine = load::engine(weights, &args.arm, config)?;

    if !args.json {
        let (model, arch, activations) = (args.model.display(), args.arm.arch, args.arm.activations.name());
        line!(
            "{model} on {arch}, activations {activations}; noise floor {} nats ({precision:?})",
            rules.noise_floor
        )?;
    }
    let mut modes = Vec::new();
    for mode in [Mode::Decode, Mode::Prefill] {
        if args.mode == mode || args.mode == Mode::Both {
            let name = if mode == Mode::Decode { "decode" } else { "prefill" };
            let reports = compare(&mut engine, rows, rules, mode, args)?;
            if !args.json {
                print_mode(name, rows, &reports, tokenizer.as_ref())?;
            }
            modes.push((name, reports));
        }
    }
    let totals = Totals::of(modes.iter().flat_map(|(_, reports)| reports));
    let code = totals.exit_code(args.strict);
    if args.json {
        let modes =
            modes.iter().map(|(name, rows)| json!({"mode": name, "rows": rows, "totals": Totals::of(rows)}));
        let report = json!({
            "model": args.model, "golden": args.golden, "arch": args.arm.arch.to_string(),
            "activations": args.arm.activations.name(), "precision": precision,
            "noise_floor": rules.noise_floor, "teacher_forced": rules.teacher_forced, "strict": args.strict,
            "alone": args.alone, "engine": engine.config(), "modes": modes.collect::<Vec<_>>(),
            "totals": totals, "exit_code": code,
        });
        line!("{report}")?;
    } else {
        line!("{}", summary(&totals, code))?;
    }
    Ok(ExitCode::from(code))
}

fn compare(
    engine: &mut Engine<Cpu>,
    rows: &[Row],
    rules: Rules,
    mode: Mode,
    args: &Args,
) -> Result<Vec<RowReport>> {
    let total: usize = rows.iter().map(|row| row.ids.len().min(rules.max_tokens)).sum();
    let bar = bar(args.quiet, total as u64, "gate    {bar:40} {pos}/{len} tokens {per_sec}");
    let mut progress = || bar.inc(1);
    let reports = match mode {
        Mode::Prefill => gate::prefill(engine, rows, rules, args.alone, &mut progress),
        _ => gate::decode(engine, rows, rules, args.alone, &mut progress),
    };
    bar.finish_and_clear();
    if reports.is_err() {
        note("the golden may belong to another checkpoint");
    }
    Ok(reports?)
}

fn print_mode(mode: &str, rows: &[Row], reports: &[RowReport], tokenizer: Option<&Tokenizer>) -> Result<()> {
    line!("\n{mode}: row, matched/compared, verdict, prompt")?;
    for (row, report) in rows.iter().zip(reports) {
        let prompt = row.prompt.clone().unwrap_or_else(|| format!("{:?}", row.prompt_ids));
        let counts = format!("{}/{}", report.matched, report.compared);
        line!("{:>4} {counts:>9}  {:12} {}", report.prompt, report.verdict, prompts::label(&prompt))?;
        if report.compared < report.expected {
            line!("      {} of {} tokens compared", report.compared, report.expected)?;
        }
        // The first, and the first that is no near tie.
        let first = report.differences.first();
        let sure = report.differences.iter().find(|d| !d.near_tie).filter(|d| Some(*d) != first);
        for d in first.into_iter().chain(sure) {
            let spell = |id: u32| match tokenizer.and_then(|t| t.token(id)) {
                Some(token) => format!("{id} {token:?}"),
                None => id.to_string(),
            };
            let nats = |margin: Option<f32>| margin.map_or("unknown".into(), |margin| format!("{margin:.5}"));
            let second = if d.second == Some(d.got) { ", got is the oracle's runner-up" } else { "" };
            line!(
                "      position {}: got {}, expected {}; margin ours {}, oracle {} nats{second}",
                d.position,
                spell(d.got),
                spell(d.expected),
                nats(d.margin),
                nats(d.oracle_margin),
            )?;
        }
        if report.differences.len() > 1 {
            line!("      {} positions differ", report.differences.len())?;
        }
    }
    let t = Totals::of(reports);
    line!(
        "{mode}: {}/{} tokens matched, {} of {} rows compared; strict pass {}, near tie {}, divergence {}, short {}",
        t.matched,
        t.compared,
        t.rows_compared,
        t.rows,
        t.strict_pass,
        t.near_tie,
        t.divergence,
        t.short
    )
}

fn summary(totals: &Totals, code: u8) -> &'static str {
    match code {
        0 if totals.near_tie == 0 => "STRICT PASS",
        0 => "NEAR TIES ONLY",
        1 if totals.divergence == 0 => "NEAR TIES, refused by --strict",
        1 => "DIVERGENCE",
        3 => "NOTHING COMPARED",
        _ => "SHORT ROWS",
    }
}
