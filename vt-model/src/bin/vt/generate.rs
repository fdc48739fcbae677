//! `vt generate`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vt_model::backend::Backend;
use vt_model::config::GenerationConfig;
use vt_model::engine::{Engine, Finish, Request, Sampling, Token};
use vt_model::tokenizer::{Stream, Tokenizer};

use crate::load::{self, Arm, Loaded, Sizes};
use crate::output::{Result, bar, bytes, line, note, print, rate};
use crate::prompts::{self, ChatArgs, Prompt, PromptArgs};

/// Continues prompts, all in one batch. The answer of one prompt is printed as it comes; answers of several are
/// printed in the order of the prompts, each behind a line that names it. Progress and speed go to standard error.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the checkpoint, as on Hugging Face
    #[arg(long, value_name = "DIR")]
    model: PathBuf,

    #[command(flatten)]
    prompts: PromptArgs,

    #[command(flatten)]
    chat: ChatArgs,

    /// Most tokens to produce for each prompt
    #[arg(long, value_name = "N", default_value_t = 128)]
    max_tokens: usize,

    #[command(flatten)]
    sampling: SamplingArgs,

    /// Token id that ends an answer, besides the checkpoint's end of sequence; may be given more than once
    #[arg(long, value_name = "ID")]
    stop_id: Vec<u32>,

    /// Go on behind the checkpoint's end of sequence
    #[arg(long)]
    ignore_eos: bool,

    /// Report the log-probability of each token and of the N best, at most 20
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=20))]
    logprobs: Option<u8>,

    #[command(flatten)]
    arm: Arm,

    #[command(flatten)]
    sizes: Sizes,

    /// Print one JSON object for each prompt: prompt, prompt_ids, ids, text, finish, logprobs
    #[arg(long)]
    json: bool,

    /// Print nothing to standard error but errors
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  vt generate --model DIR --prompt 'count from 17: 17 18' --max-tokens 24
  vt generate --model DIR --prompt 'days: friday' --prompt 'sort: 5 2 9 1 ->' --json
  vt generate --model DIR --chat --prompt 'Why is the sky blue?' --temperature 0.6 --seed 7
  git diff | vt generate --model DIR --chat --prompt-file -

Without sampling flags the most probable token is taken. --temperature, --top-k, --top-p, --min-p or
--sampling-from-checkpoint turn sampling on; equal seeds give equal answers, whatever else is in the batch.";

/// How tokens are chosen.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct SamplingArgs {
    /// Divides the logits; 0 takes the most probable token. 1 if another sampling flag is there, else 0
    #[arg(long, value_name = "T")]
    temperature: Option<f32>,

    /// Sample from the K best tokens
    #[arg(long, value_name = "K")]
    top_k: Option<u32>,

    /// Sample from the best tokens whose probabilities reach P
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,

    /// Sample from tokens at least P times as probable as the best
    #[arg(long, value_name = "P")]
    min_p: Option<f32>,

    /// Divides positive and multiplies negative logits of tokens seen before
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    repetition_penalty: f32,

    /// Subtracted from logits of tokens in the answer
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    presence_penalty: f32,

    /// Subtracted from logits of tokens in the answer, once for each time
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    frequency_penalty: f32,

    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Take temperature, top_k and top_p from generation_config.json where no flag says otherwise
    #[arg(long)]
    sampling_from_checkpoint: bool,
}

impl SamplingArgs {
    pub(crate) fn sampling(&self, checkpoint: &GenerationConfig) -> Sampling {
        let suggested = match self.sampling_from_checkpoint && checkpoint.do_sample {
            true => checkpoint.clone(),
            false => GenerationConfig::default(),
        };
        let top_k = self.top_k.or(suggested.top_k.filter(|&k| k > 0));
        let top_p = self.top_p.or(suggested.top_p);
        let samples = suggested.do_sample || top_k.is_some() || top_p.is_some() || self.min_p.is_some();
        let temperature = self.temperature.or(suggested.temperature);
        Sampling {
            temperature: temperature.unwrap_or(if samples { 1.0 } else { 0.0 }),
            top_k,
            top_p: top_p.unwrap_or(1.0),
            min_p: self.min_p.unwrap_or(0.0),
            seed: self.seed,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let loaded = load::weights(&args.model, args.quiet)?;
    let config = &loaded.weights.config;
    let tokenizer = prompts::tokenizer(&args.model)?;
    let prompts = args.prompts.read(&args.model, config, tokenizer.as_ref(), &args.chat)?;
    let generation = GenerationConfig::load(&args.model)?;
    let sampling = args.sampling.sampling(&generation);
    sampling.check()?;
    let mut stop = args.stop_id.clone();
    if !args.ignore_eos {
        stop.extend(config.eos_token_id.iter().chain(&generation.eos_token_id));
    }
    let needs: Vec<_> = prompts.iter().map(|prompt| (prompt.ids.len(), args.max_tokens)).collect();
    let mut engine = load::engine(&loaded.weights, &args.arm, args.sizes.config(config, &args.arm, &needs)?)?;
    let mut answers = Vec::new();
    for prompt in &prompts {
        engine.add(Request {
            prompt: prompt.ids.clone(),
            max_tokens: args.max_tokens,
            sampling,
            stop: stop.clone(),
            top_n: args.logprobs.unwrap_or(0).into(),
        })?;
        answers.push(Answer::new(prompt, tokenizer.as_ref(), args.max_tokens));
    }
    let speed = generate(&mut engine, &mut answers, args)?;
    if !args.quiet {
        speed.report(&loaded);
    }
    Ok(ExitCode::SUCCESS)
}

fn generate<B: Backend>(engine: &mut Engine<B>, answers: &mut [Answer<'_>], args: &Args) -> Result<Speed> {
    let to_prefill = engine.progress().to_prefill;
    let bar = bar(args.quiet, to_prefill as u64, "prefill {bar:40} {pos}/{len} tokens {per_sec}");
    let streams = answers.len() == 1 && !args.json;
    let mut speed = Speed::default();
    let mut printed = print_finished(answers, 0, args)?;
    while !engine.is_idle() {
        let (start, before) = (Instant::now(), engine.progress().prefilled);
        let tokens = engine.step()?;
        let prefilled = engine.progress().prefilled - before;
        speed.step(prefilled, tokens.len(), start.elapsed());
        bar.inc(prefilled as u64);
        if engine.progress().to_prefill == 0 {
            bar.finish_and_clear();
        }
        for token in tokens {
            let answer = &mut answers[token.request as usize];
            let piece = answer.push(token)?;
            if streams {
                print(format_args!("{piece}"))?;
            }
        }
        printed = print_finished(answers, printed, args)?;
    }
    Ok(speed)
}

/// An answer while it grows.
struct Answer<'a> {
    prompt: &'a Prompt,
    stream: Option<Stream<'a>>,
    tokenizer: Option<&'a Tokenizer>,
    text: String,
    tokens: Vec<Token>,
    finish: Option<Finish>,
}

impl<'a> Answer<'a> {
    fn new(prompt: &'a Prompt, tokenizer: Option<&'a Tokenizer>, max_tokens: usize) -> Self {
        let finish = (max_tokens == 0).then_some(Finish::Length);
        let stream = tokenizer.map(Tokenizer::stream);
        Answer { prompt, stream, tokenizer, text: String::new(), tokens: Vec::new(), finish }
    }

    /// Takes a token and gives the text that it adds; a token that ends the answer adds none. Without a
    /// tokenizer the text is the ids.
    fn push(&mut self, token: Token) -> Result<String> {
        let mut piece = match &mut self.stream {
            None if self.tokens.is_empty() => token.id.to_string(),
            None => format!(" {}", token.id),
            Some(_) if token.finish == Some(Finish::Stop) => String::new(),
            Some(stream) => stream.push(token.id)?,
        };
        if let (Some(_), Some(stream)) = (token.finish, &mut self.stream) {
            piece += &stream.finish()?;
        }
        self.finish = token.finish;
        self.text += &piece;
        self.tokens.push(token);
        Ok(piece)
    }

    fn spell(&self, id: u32) -> String {
        let text = self.tokenizer.and_then(|tokenizer| tokenizer.token(id));
        text.map_or(id.to_string(), |token| format!("{id} {token:?}"))
    }

    fn json(&self, index: usize, logprobs: bool) -> Value {
        let ids: Vec<_> = self.tokens.iter().map(|token| token.id).collect();
        let mut object = json!({
            "index": index,
            "prompt": self.prompt.text,
            "prompt_ids": self.prompt.ids,
            "ids": ids,
            "text": self.tokenizer.map(|_| &self.text),
            "finish": self.finish,
        });
        if logprobs {
            let entry = |token: &Token| json!({"id": token.id, "logprob": token.logprob, "top": token.top});
            object["logprobs"] = self.tokens.iter().map(entry).collect();
        }
        object
    }
}

/// Prints finished answers in the order of the prompts, from `next` on; returns which is next.
fn print_finished(answers: &[Answer<'_>], mut next: usize, args: &Args) -> Result<usize> {
    while let Some(answer) = answers.get(next).filter(|answer| answer.finish.is_some()) {
        if args.json {
            line!("{}", answer.json(next, args.logprobs.is_some()))?;
        } else {
            if answers.len() > 1 {
                line!("--- {next}: {}", answer.prompt.label())?;
                print(format_args!("{}", answer.text))?;
            }
            line!("")?;
            if args.logprobs.is_some() {
                print_logprobs(answer)?;
            }
        }
        next += 1;
    }
    Ok(next)
}

fn print_logprobs(answer: &Answer<'_>) -> Result<()> {
    for token in &answer.tokens {
        let top: Vec<_> = token.top.iter().map(|&(id, p)| format!("{} {p:.4}", answer.spell(id))).collect();
        line!("{:>9.4}  {:24} {}", token.logprob, answer.spell(token.id), top.join(", "))?;
    }
    Ok(())
}

/// Tokens and times of prefill and decode. A step that computes any prompt counts as prefill.
#[derive(Default)]
struct Speed {
    prefill: (usize, Duration),
    decode: (usize, Duration),
}

impl Speed {
    fn step(&mut self, prefilled: usize, produced: usize, time: Duration) {
        let (tokens, part) = match prefilled {
            0 => (produced, &mut self.decode),
            prefilled => (prefilled, &mut self.prefill),
        };
        part.0 += tokens;
        part.1 += time;
    }

    fn report(&self, loaded: &Loaded) {
        let (prefill, decode) = (self.prefill, self.decode);
        note(&format!(
            "loaded {} in {:.2} s; prefill {} tokens, {:.1} tokens/s; decode {} tokens, {:.1} tokens/s",
            bytes(loaded.bytes),
            loaded.time.as_secs_f64(),
            prefill.0,
            rate(prefill.0, prefill.1),
            decode.0,
            rate(decode.0, decode.1),
        ));
    }
}
