//! Options that say what to load and how to run it.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use serde_json::{Map, Value};
use vt_kernels::Arch;
use vt_model::backend::cpu::{Activations, Cpu, Options};
use vt_model::config::{Config, LayerKind, StateDtype};
use vt_model::engine::{Engine, EngineConfig, kv_bytes_per_block};
use vt_model::model::Model;
use vt_model::weights::Weights;

use crate::output::{Failure, Result, bar, bytes, fail};

/// What is modelled.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Arm {
    /// Chip whose arithmetic is modelled: sm_121a (GB10) or sm_90a (H200)
    #[arg(long, value_name = "ARCH", default_value = "sm_121a", value_parser = arch)]
    pub(crate) arch: Arch,

    /// What enters quantised layers
    #[arg(long, value_enum, default_value_t)]
    pub(crate) activations: ActivationsArg,
}

/// `--activations`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ActivationsArg {
    /// Rounded as the checkpoint says, the KV cache too
    #[default]
    Checkpoint,
    /// bf16 everywhere: only weights are quantised
    Bf16,
}

impl ActivationsArg {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ActivationsArg::Checkpoint => "checkpoint",
            ActivationsArg::Bf16 => "bf16",
        }
    }
}

impl Arm {
    pub(crate) fn options(&self) -> Options {
        let activations = match self.activations {
            ActivationsArg::Checkpoint => Activations::Checkpoint,
            ActivationsArg::Bf16 => Activations::Bf16,
        };
        Options { arch: self.arch, activations }
    }
}

/// Sizes of the engine.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Sizes {
    /// Tokens in a KV block
    #[arg(long, value_name = "TOKENS", default_value_t = 16, value_parser = size())]
    pub(crate) block_size: usize,

    /// KV blocks; by default as many as the prompts need at once
    #[arg(long, value_name = "N", value_parser = size(), conflicts_with = "kv_memory")]
    pub(crate) kv_blocks: Option<usize>,

    /// Memory for KV blocks, such as 512MiB or 2GB
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    pub(crate) kv_memory: Option<u64>,

    /// Most sequences in one batch
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = size())]
    pub(crate) max_seqs: usize,

    /// Most prompt tokens in one step; longer prompts are cut at multiples of the model's chunk size
    #[arg(long, value_name = "TOKENS", default_value_t = 2048, value_parser = size())]
    pub(crate) chunk: usize,
}

impl Sizes {
    /// Sizes for requests of `(prompt, max_tokens)`.
    pub(crate) fn config(&self, model: &Config, arm: &Arm, needs: &[(usize, usize)]) -> Result<EngineConfig> {
        let fp8 = model.kv_cache_fp8 && arm.activations == ActivationsArg::Checkpoint;
        let per_block = kv_bytes_per_block(model, self.block_size, fp8);
        let mut blocks: Vec<usize> = needs
            .iter()
            .map(|&(prompt, max)| prompt.saturating_add(max.saturating_sub(1)).div_ceil(self.block_size))
            .collect();
        blocks.sort_unstable_by(|a, b| b.cmp(a));
        let needed = blocks.iter().take(self.max_seqs).fold(0usize, |sum, &n| sum.saturating_add(n)).max(1);
        let kv_blocks = match (self.kv_blocks, self.kv_memory) {
            (Some(blocks), _) => blocks,
            (None, Some(_)) if per_block == 0 => needed,
            (None, Some(memory)) if memory < per_block => {
                return fail(format!("--kv-memory: {}, a block takes {}", bytes(memory), bytes(per_block)));
            }
            (None, Some(memory)) => usize::try_from(memory / per_block).unwrap_or(usize::MAX),
            (None, None) => needed,
        };
        if self.chunk < model.chunk_size {
            return fail(format!(
                "--chunk: {}, expected at least {}, the model's chunk size",
                self.chunk, model.chunk_size
            ));
        }
        let max_seqs = if needs.is_empty() { self.max_seqs } else { self.max_seqs.min(needs.len()) };
        let state = per_block
            .saturating_mul(kv_blocks as u64)
            .saturating_add(bytes_per_sequence(model).saturating_mul(max_seqs as u64));
        if let Some(free) = memory_available().filter(|&free| state > free) {
            return fail(format!(
                "{kv_blocks} KV blocks and {max_seqs} sequences take {}, {} are free (--kv-blocks, --max-seqs)",
                bytes(state),
                bytes(free)
            ));
        }
        Ok(EngineConfig { block_size: self.block_size, kv_blocks, max_seqs, max_prefill_tokens: self.chunk })
    }
}

/// Bytes of recurrent state of one sequence.
fn bytes_per_sequence(model: &Config) -> u64 {
    let layers = model.layers.iter().filter(|kind| **kind == LayerKind::Mamba).count() as u64;
    let conv = model.conv_dim() as u64 * model.conv_kernel.saturating_sub(1) as u64 * 2;
    let element = if model.mamba_ssm_cache_dtype == StateDtype::F32 { 4 } else { 2 };
    layers * (conv + model.d_inner() as u64 * model.ssm_state_size as u64 * element)
}

/// Free memory, where the system tells.
pub(crate) fn memory_available() -> Option<u64> {
    meminfo("MemAvailable")
}

/// A line of Linux's `/proc/meminfo`, in bytes.
pub(crate) fn meminfo(field: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Weights, and how long they took.
pub(crate) struct Loaded {
    pub(crate) weights: Arc<Weights>,
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
}

/// Reads a checkpoint with a bar.
pub(crate) fn weights(dir: &Path, quiet: bool) -> Result<Loaded> {
    if !dir.is_dir() {
        return fail(format!("--model: {} is not a folder", dir.display()));
    }
    let bar = bar(quiet, 0, "load    {bar:40} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}");
    let start = Instant::now();
    let read = std::sync::atomic::AtomicU64::new(0);
    let progress = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
        read.fetch_max(done, std::sync::atomic::Ordering::Relaxed);
    };
    let weights = Weights::load(dir, &progress);
    bar.finish_and_clear();
    Ok(Loaded { weights: Arc::new(weights?), bytes: read.into_inner(), time: start.elapsed() })
}

/// An engine on the CPU.
pub(crate) fn engine(weights: &Arc<Weights>, arm: &Arm, config: EngineConfig) -> Result<Engine<Cpu>> {
    let model = Model::new(Cpu::new(arm.options()), weights.clone()).map_err(|error| {
        Failure::Message(format!("--arch {} --activations {}: {error}", arm.arch, arm.activations.name()))
    })?;
    Ok(Engine::new(model, config)?)
}

/// The checkpoint's revision: as given, else `_commit_hash` of its config, else the name of a snapshot folder of
/// the Hugging Face cache.
pub(crate) fn revision(given: Option<&str>, dir: &Path) -> Option<String> {
    let from_config = || {
        let text = std::fs::read_to_string(dir.join("config.json")).ok()?;
        let config: Map<String, Value> = serde_json::from_str(&text).ok()?;
        config.get("_commit_hash").and_then(Value::as_str).map(str::to_owned)
    };
    let from_path = || {
        let path: PathBuf = dir.canonicalize().ok()?;
        let snapshot = path.parent()?.file_name()? == "snapshots";
        snapshot.then(|| path.file_name()?.to_str().map(str::to_owned)).flatten()
    };
    given.map(str::to_owned).or_else(from_config).or_else(from_path)
}

/// Parses a chip that the references model.
pub(crate) fn arch(text: &str) -> std::result::Result<Arch, String> {
    match Arch::from_str(text) {
        Ok(arch @ (Arch::Sm90a | Arch::Sm121a)) => Ok(arch),
        _ => Err("expected sm_121a or sm_90a".into()),
    }
}

/// Parses a size from 1 to 2³¹ − 1.
pub(crate) fn size() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=i32::MAX as u64)
}

/// Parses bytes with an optional unit.
pub(crate) fn memory(text: &str) -> std::result::Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err("expected a number with KiB, MiB, GiB, KB, MB or GB".into()),
    };
    let number: u64 = number.parse().map_err(|_| "expected a number first".to_owned())?;
    number.checked_mul(factor).ok_or_else(|| "more than 2^64 bytes".into())
}
