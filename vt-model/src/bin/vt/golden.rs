//! `vt golden`.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, Value, json};
use vt_model::config::GenerationConfig;
use vt_model::engine::{Request, Sampling, Token};
use vt_model::golden::{Capture, Golden, Row};

use crate::load::{self, Arm, Sizes};
use crate::output::{Result, bar, fail, note, print};
use crate::prompts::{self, ChatArgs, Prompt};

/// Writes a golden file from this program's own run: for each prompt the most probable tokens, each with its
/// runner-up and by how much it won, and how the run was made.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the checkpoint
    #[arg(long, value_name = "DIR")]
    model: PathBuf,

    /// Prompts: a golden file, whose prompts are taken over, or text with a prompt to a line; - is standard input
    #[arg(long, value_name = "FILE", required_unless_present_any = ["prompt", "tokens"])]
    prompts: Option<PathBuf>,

    /// Text to continue; may be given more than once
    #[arg(long, value_name = "TEXT")]
    prompt: Vec<String>,

    /// Prompt as token ids, such as 1,377,376; may be given more than once
    #[arg(long, value_name = "IDS", value_parser = prompts::ids)]
    tokens: Vec<prompts::Ids>,

    #[command(flatten)]
    chat: ChatArgs,

    /// Where to write; without it to standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Tokens to produce for each prompt
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = load::size())]
    max_tokens: usize,

    /// End a row at the checkpoint's end of sequence instead of going on
    #[arg(long)]
    stop_at_eos: bool,

    /// Revision of the checkpoint; else from its config or its place in the Hugging Face cache
    #[arg(long, value_name = "NAME")]
    revision: Option<String>,

    /// Name of the checkpoint in the file; by default --model
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    arm: Arm,

    #[command(flatten)]
    sizes: Sizes,

    /// Print nothing to standard error but errors
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  vt golden --model DIR --prompts prompts.txt --output golden.json
  vt golden --model DIR --prompts other-golden.json --arch sm_90a --output golden-sm90a.json
  vt golden --model DIR --prompt 'days: friday saturday' --max-tokens 16";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let loaded = load::weights(&args.model, args.quiet)?;
    let config = &loaded.weights.config;
    let tokenizer = prompts::tokenizer(&args.model)?;
    let to_prompts =
        |texts| prompts::texts_to_prompts(texts, &args.model, config, tokenizer.as_ref(), &args.chat);
    let mut all = Vec::new();
    if let Some(path) = &args.prompts {
        let text = prompts::read(path)?;
        match Golden::parse(text.as_bytes()) {
            Ok(golden) => all
                .extend(golden.rows.into_iter().map(|row| Prompt { text: row.prompt, ids: row.prompt_ids })),
            Err(error) if text.trim_start().starts_with(['{', '[']) => return Err(error.into()),
            Err(_) => {
                let lines = text.lines().filter(|line| !line.is_empty());
                all.extend(to_prompts(lines.map(str::to_owned).collect())?);
            }
        }
    }
    all.extend(to_prompts(args.prompt.clone())?);
    all.extend(args.tokens.iter().map(|ids| Prompt { text: None, ids: ids.0.clone() }));
    if all.is_empty() {
        return fail("--prompts: no prompts");
    }

    let mut stop = Vec::new();
    if args.stop_at_eos {
        stop.extend(config.eos_token_id.iter().chain(&GenerationConfig::load(&args.model)?.eos_token_id));
    }
    let needs: Vec<_> = all.iter().map(|prompt| (prompt.ids.len(), args.max_tokens)).collect();
    let mut engine = load::engine(&loaded.weights, &args.arm, args.sizes.config(config, &args.arm, &needs)?)?;
    let mut rows = Vec::new();
    for prompt in all {
        let request = Request::greedy(prompt.ids.clone(), args.max_tokens);
        engine.add(Request { stop: stop.clone(), top_n: 2, ..request })?;
        rows.push(Row { prompt: prompt.text, prompt_ids: prompt.ids, ..Row::default() });
    }
    let total = (rows.len() * args.max_tokens) as u64;
    let bar = bar(args.quiet, total, "golden  {bar:40} {pos}/{len} tokens {per_sec}");
    for token in engine.tokens() {
        add(&mut rows, &token?)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    for row in &mut rows {
        row.text = tokenizer.as_ref().map(|tokenizer| tokenizer.decode(&row.ids)).transpose()?;
    }

    let golden = Golden { capture: Some(capture(args, engine.config())?), rows };
    match &args.output {
        None => print(format_args!("{}", golden.to_json()))?,
        Some(path) => {
            if let Err(error) = std::fs::write(path, golden.to_json()) {
                return fail(format!("{}: {error}", path.display()));
            }
            if !args.quiet {
                note(&format!("wrote {} prompts to {}", golden.rows.len(), path.display()));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn add(rows: &mut [Row], token: &Token) -> Result<()> {
    let [(_, first), (second, next)] = token.top[..] else { return fail("the vocabulary has no runner-up") };
    let margin = first - next;
    if !(token.logprob.is_finite() && margin.is_finite()) {
        return fail(format!("prompt {}: logits of token {} are not finite", token.request, token.index));
    }
    let row = &mut rows[token.request as usize];
    row.ids.push(token.id);
    row.second.push(second);
    row.logprob.push(token.logprob);
    row.margin_nats.push(margin);
    Ok(())
}

fn capture(args: &Args, engine: &vt_model::engine::EngineConfig) -> Result<Capture> {
    let mut sampling = object(serde_json::to_value(Sampling::default())?);
    sampling.insert("max_tokens".into(), args.max_tokens.into());
    sampling.insert("ignore_eos".into(), json!(!args.stop_at_eos));
    Ok(Capture {
        model: args.name.clone().unwrap_or_else(|| args.model.display().to_string()),
        revision: load::revision(args.revision.as_deref(), &args.model),
        vt: env!("CARGO_PKG_VERSION").into(),
        arch: args.arm.arch.to_string(),
        activations: args.arm.activations.name().into(),
        engine: object(serde_json::to_value(engine)?),
        sampling,
    })
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
