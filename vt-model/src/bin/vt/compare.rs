//! `vt compare`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

use clap::ValueEnum;
use serde_json::json;
use vt_kernels::Arch;
use vt_model::compare::{Difference, Element, Report, lock_step};
use vt_model::engine::{EngineConfig, Request};
use vt_model::weights::Weights;

use crate::load::{self, ActivationsArg, Arm, Sizes};
use crate::output::{Result, bar, fail, line};
use crate::prompts::{self, ChatArgs, PromptArgs};

/// Runs two configurations in lock step and names the first tensor that differs: layer, operation, row and column, both
/// values and their bits. Then tells where each layer stands. The right run is fed the left run's tokens.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the checkpoint, for a side that names none
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,

    /// Settings of the run that is compared with
    #[arg(long, value_name = "SPEC", default_value = "", value_parser = Spec::from_str)]
    left: Spec,

    /// Settings of the run that is looked at
    #[arg(long, value_name = "SPEC", default_value = "", value_parser = Spec::from_str)]
    right: Spec,

    #[command(flatten)]
    prompts: PromptArgs,

    #[command(flatten)]
    chat: ChatArgs,

    /// Tokens to produce for each prompt
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = load::size())]
    max_tokens: usize,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Print nothing to standard error but errors
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "A SPEC is a list like arch=sm_90a,activations=bf16,batch=8,chunk=128, of
  model=DIR             checkpoint of this side
  arch=ARCH             sm_121a (default) or sm_90a
  activations=WHICH     checkpoint (default) or bf16
  batch=N               most sequences in one batch (default 16)
  chunk=N               most prompt tokens in one step (default 2048)
  block_size=N, kv_blocks=N

Examples:
  vt compare --model DIR --left arch=sm_121a --right arch=sm_90a --prompt 'add: 23 + 45 ='
  vt compare --model DIR --left batch=1 --right batch=8,chunk=128 --prompt 'days: friday' --prompt 'x'
  vt compare --left model=bf16 --right model=nvfp4,activations=bf16 --tokens 1,377,376

Exit status: 0 all bits equal, 1 something differs, 2 wrong usage or input.";

/// Settings of one side.
#[derive(Clone, Debug)]
struct Spec {
    model: Option<PathBuf>,
    arm: Arm,
    sizes: Sizes,
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (arch, activations) = (Arch::Sm121a, ActivationsArg::default());
        let sizes = Sizes { block_size: 16, kv_blocks: None, kv_memory: None, max_seqs: 16, chunk: 2048 };
        let mut spec = Spec { model: None, arm: Arm { arch, activations }, sizes };
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or(format!("`{part}`, expected NAME=VALUE"))?;
            let size = || match value.parse::<usize>() {
                Ok(n) if (1..=i32::MAX as usize).contains(&n) => Ok(n),
                _ => Err(format!("{name}: `{value}`, expected a number of at least 1")),
            };
            match name {
                "model" => spec.model = Some(value.into()),
                "arch" => spec.arm.arch = load::arch(value).map_err(|e| format!("arch: `{value}`, {e}"))?,
                "activations" => {
                    spec.arm.activations = ActivationsArg::from_str(value, false)
                        .map_err(|_| format!("activations: `{value}`, expected checkpoint or bf16"))?
                }
                "batch" => spec.sizes.max_seqs = size()?,
                "chunk" => spec.sizes.chunk = size()?,
                "block_size" => spec.sizes.block_size = size()?,
                "kv_blocks" => spec.sizes.kv_blocks = Some(size()?),
                _ => {
                    return Err(format!(
                        "`{name}`, expected model, arch, activations, batch, chunk, block_size or kv_blocks"
                    ));
                }
            }
        }
        Ok(spec)
    }
}

impl Spec {
    fn dir<'a>(&'a self, common: &'a Option<PathBuf>) -> Result<&'a Path> {
        match self.model.as_ref().or(common.as_ref()) {
            Some(dir) => Ok(dir),
            None => fail("--model: give it, or model=DIR on both sides"),
        }
    }

    fn describe(&self, dir: &Path, config: &EngineConfig) -> String {
        format!(
            "{} on {}, activations {}, batch {}, chunk {}",
            dir.display(),
            self.arm.arch,
            self.arm.activations.name(),
            config.max_seqs,
            config.max_prefill_tokens
        )
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let dirs = [args.left.dir(&args.model)?, args.right.dir(&args.model)?];
    let left: Arc<Weights> = load::weights(dirs[0], args.quiet)?.weights;
    let right = if dirs[0] == dirs[1] { left.clone() } else { load::weights(dirs[1], args.quiet)?.weights };
    if left.config.vocab_size != right.config.vocab_size {
        return fail("--left and --right: checkpoints of different vocabularies");
    }
    let tokenizer = prompts::tokenizer(dirs[0])?;
    let prompts = args.prompts.read(dirs[0], &left.config, tokenizer.as_ref(), &args.chat)?;
    let needs: Vec<_> = prompts.iter().map(|prompt| (prompt.ids.len(), args.max_tokens)).collect();
    let requests: Vec<_> =
        prompts.iter().map(|prompt| Request::greedy(prompt.ids.clone(), args.max_tokens)).collect();
    let engine = |spec: &Spec, weights: &Arc<Weights>| {
        load::engine(weights, &spec.arm, spec.sizes.config(&weights.config, &spec.arm, &needs)?)
    };
    let (mut left, mut right) = (engine(&args.left, &left)?, engine(&args.right, &right)?);
    let specs = [args.left.describe(dirs[0], left.config()), args.right.describe(dirs[1], right.config())];

    let total = (requests.len() * args.max_tokens) as u64;
    let bar = bar(args.quiet, total, "compare {bar:40} {pos}/{len} tokens {per_sec}");
    let report = lock_step(&mut left, &mut right, &requests, &mut || bar.inc(1));
    bar.finish_and_clear();
    let report = report?;
    if report.tensors.iter().all(|tensor| tensor.rows == 0) {
        return fail("nothing was compared");
    }
    if args.json {
        let body = json!({
            "left": specs[0], "right": specs[1], "equal": report.equal(), "layers": report.layers(),
            "report": report,
        });
        line!("{body}")?;
    } else {
        line!("left   {}\nright  {}\n", specs[0], specs[1])?;
        print_report(&report)?;
    }
    Ok(ExitCode::from(u8::from(!report.equal())))
}

fn print_report(report: &Report) -> Result<()> {
    let place = |layer: Option<usize>| layer.map_or("-".to_owned(), |layer| layer.to_string());
    match &report.first {
        None if report.equal() => line!("equal: no bit differs")?,
        None => line!("tensors of different shapes")?,
        Some(d) => print_first(d, report)?,
    }
    line!(
        "\n{:>5} {:>10} {:>12} {:>12}  {:16} {:>10}",
        "layer",
        "operations",
        "elements",
        "differ",
        "first",
        "max ulp"
    )?;
    for layer in report.layers() {
        line!(
            "{:>5} {:>10} {:>12} {:>12}  {:16} {:>10}",
            place(layer.layer),
            layer.operations,
            layer.elements,
            layer.differ,
            layer.first.unwrap_or("-"),
            layer.max_ulp
        )?;
    }
    let unpaired: usize = report.tensors.iter().map(|tensor| tensor.unpaired).sum();
    line!(
        "\ntokens: {} of {} differ; rows that only one run has: {unpaired}",
        report.tokens_differ,
        report.tokens
    )
}

fn print_first(d: &Difference, report: &Report) -> Result<()> {
    let layer = d.layer.map_or(String::new(), |layer| format!("layer {layer}, "));
    line!(
        "first difference: {layer}{}, request {}, position {}, column {}",
        d.operation,
        d.request,
        d.position,
        d.column
    )?;
    for (side, e) in [("left", d.left), ("right", d.right)] {
        let Element { value, bits, dtype } = e;
        let width = if dtype == "bf16" { 6 } else { 10 };
        line!("  {side:6} {value:<24} {bits:#0width$x} {dtype}")?;
    }
    if let Some(t) = report.tensors.iter().find(|t| (t.layer, t.operation) == (d.layer, d.operation)) {
        line!(
            "  in this tensor {} of {} elements and {} of {} rows differ, at most by {} ulp",
            t.differ,
            t.elements,
            t.rows_differ,
            t.rows,
            t.max_ulp
        )?;
    }
    Ok(())
}
