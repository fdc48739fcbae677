//! `vt inspect`: what a checkpoint is made of.

use std::path::PathBuf;
use std::process::ExitCode;

use vt_model::inspect::{Block, Report};

use crate::output::{Result, bytes, fail, line};

/// Shows layers, precisions, shapes and bytes of a checkpoint, the bytes that one token reads, and the speed limit that
/// follows. Only headers are read.
#[derive(clap::Args)]
#[command(after_help = "Bandwidths (nominal, GB/s): GB10 273, H200 4800.")]
pub(crate) struct Args {
    /// Checkpoint folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Memory bandwidth in 10^9 bytes a second
    #[arg(long, value_name = "GB/S", default_value_t = 273.0)]
    bandwidth: f64,

    /// Tokens of context whose keys and values are read, too
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    context: u64,

    /// List every module of every layer
    #[arg(long)]
    modules: bool,

    /// One JSON object on standard output
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if !(args.bandwidth.is_finite() && args.bandwidth > 0.0) {
        return fail(format!("--bandwidth: {}, expected a number above 0", args.bandwidth));
    }
    let report = Report::read(&args.dir)?;
    let limit = report.roofline(args.bandwidth, args.context);
    if args.json {
        let mut json = serde_json::to_value(&report)?;
        json["bandwidth_gb_per_second"] = args.bandwidth.into();
        json["context"] = args.context.into();
        json["tokens_per_second_limit"] = limit.into();
        line!("{json}")?;
    } else {
        table(&report, args.modules)?;
        summary(&report, args, limit)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(report: &Report, modules: bool) -> Result<()> {
    line!("{:>5}  {:<10} {:<24} {:>12} {:>12}", "layer", "kind", "precision", "bytes", "per token")?;
    for block in &report.blocks {
        let layer = block.layer.map_or(String::from("-"), |layer| layer.to_string());
        let (total, token) = (bytes(block.total.bytes), bytes(block.bytes_per_token));
        line!("{layer:>5}  {:<10} {:<24} {total:>12} {token:>12}", block.kind, precisions(block))?;
        for module in block.modules.iter().filter(|_| modules) {
            let times = if module.count > 1 { format!(" x{}", module.count) } else { String::new() };
            let shape = format!("{:?}{times}", module.shape);
            line!(
                "       {:<34} {:<12} {shape:<24} {:>12}",
                module.name,
                module.precision,
                bytes(module.total.bytes)
            )?;
        }
    }
    Ok(())
}

/// Precisions of a block's modules, each once, the largest first.
fn precisions(block: &Block) -> String {
    let mut sums: Vec<(&str, u64)> = Vec::new();
    for module in &block.modules {
        match sums.iter_mut().find(|(name, _)| *name == module.precision) {
            Some((_, sum)) => *sum += module.total.bytes,
            None => sums.push((&module.precision, module.total.bytes)),
        }
    }
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
    sums.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn summary(report: &Report, args: &Args, limit: f64) -> Result<()> {
    line!("")?;
    for (name, total) in &report.precisions {
        line!("{name:<12} {:>14} weights {:>12}", total.parameters, bytes(total.bytes))?;
    }
    let total = report.total;
    line!(
        "{:<12} {:>14} weights {:>12} in {} tensors",
        "total",
        total.parameters,
        bytes(total.bytes),
        total.tensors
    )?;
    if report.unused.tensors > 0 {
        let unused = report.unused;
        line!("not used yet: {} tensors of multi-token prediction, {}", unused.tensors, bytes(unused.bytes))?;
    }
    let token = &report.token;
    line!("")?;
    line!("one token at batch 1 moves {}:", bytes(token.total))?;
    for (name, part) in [
        ("mamba", token.mamba),
        ("attention", token.attention),
        ("routed experts", token.routed_experts),
        ("router, shared, latent", token.moe_other),
        ("mlp", token.mlp),
        ("lm_head", token.lm_head),
        ("recurrent state", token.state),
        ("the rest", token.other),
    ] {
        if part > 0 {
            line!("  {name:<24} {:>12}", bytes(part))?;
        }
    }
    line!("keys and values: {} a token of context", bytes(report.kv_bytes_per_token))?;
    line!("recurrent state: {} a sequence", bytes(report.state_bytes_per_sequence))?;
    line!(
        "limit at {} GB/s and {} tokens of context: {limit:.1} tokens/s (modelled from these bytes)",
        args.bandwidth,
        args.context
    )
}
