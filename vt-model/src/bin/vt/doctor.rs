//! `vt doctor`.

use std::process::ExitCode;
use std::thread::available_parallelism;

use serde::Serialize;
use serde_json::json;
use vt_kernels::{Arch, Unsupported};
use vt_kernels::{attention, conv1d, embedding, gemm, mamba2, marlin, moe, norm, quant, sampling};

use crate::load::meminfo;
use crate::output::{Result, bytes, line};

/// Shows this machine, and for each kernel which arms are enabled for which chip, with the reason where one is not.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Chips that arms exist for.
const ARCHS: [Arch; 2] = [Arch::Sm121a, Arch::Sm90a];
/// Why no device arm is there.
const NO_DEVICE: &str = "built without CUDA";

type Supported = (&'static str, fn(Arch) -> std::result::Result<(), Unsupported>);

/// Every kernel with the sizes of a Nemotron 30B-A3B layer.
const KERNELS: [Supported; 27] = [
    ("attention/cache_write", |arch| {
        attention::cache_write::supported(
            arch,
            &attention::cache_write::Shape { n_kv_heads: 2, head_dim: 128 },
        )
    }),
    ("attention/flash", |arch| {
        let (n_heads, n_kv_heads, head_dim, block_size, window) = (32, 2, 128, 16, None);
        let shape = attention::flash::Shape { n_heads, n_kv_heads, head_dim, block_size, window };
        attention::flash::supported(arch, &shape)
    }),
    ("conv1d/forward", |arch| {
        conv1d::forward::supported(arch, &conv1d::forward::Shape { channels: 6144, width: 4, silu: true })
    }),
    ("conv1d/update", |arch| {
        conv1d::update::supported(arch, &conv1d::update::Shape { channels: 6144, width: 4, silu: true })
    }),
    ("embedding/gather", |arch| {
        embedding::gather::supported(arch, &embedding::gather::Shape { vocab: 131_072, cols: 2688 })
    }),
    ("gemm/bf16", |arch| gemm::bf16::supported(arch, &gemm::Shape { n: 4096, k: 2688 })),
    ("gemm/f32", |arch| gemm::f32::supported(arch, &gemm::Shape { n: 128, k: 2688 })),
    ("gemm/fp8", |arch| gemm::fp8::supported(arch, &gemm::Shape { n: 10_304, k: 2688 })),
    ("gemm/nvfp4", |arch| gemm::nvfp4::supported(arch, &gemm::Shape { n: 1856, k: 2688 })),
    ("mamba2/chunk_scan", |arch| {
        let (n_heads, head_dim, n_groups, d_state, chunk_size) = (64, 64, 8, 128, 128);
        let (dt_softplus, dt_limit) = (true, (0.0, f32::INFINITY));
        let shape = mamba2::chunk_scan::Shape {
            n_heads,
            head_dim,
            n_groups,
            d_state,
            chunk_size,
            dt_softplus,
            dt_limit,
        };
        mamba2::chunk_scan::supported(arch, &shape)
    }),
    ("mamba2/state_update", |arch| {
        let (n_heads, head_dim, n_groups, d_state) = (64, 64, 8, 128);
        let (dt_softplus, dt_limit) = (true, (0.0, f32::INFINITY));
        let shape =
            mamba2::state_update::Shape { n_heads, head_dim, n_groups, d_state, dt_softplus, dt_limit };
        mamba2::state_update::supported(arch, &shape)
    }),
    ("marlin/fp8", |arch| marlin::fp8::supported(arch, &gemm::Shape { n: 10_304, k: 2688 })),
    ("marlin/nvfp4", |arch| marlin::nvfp4::supported(arch, &gemm::Shape { n: 1856, k: 2688 })),
    ("moe/combine", |arch| moe::combine::supported(arch, &moe::combine::Shape { cols: 2688, top_k: 6 })),
    ("moe/gather", |arch| moe::gather::supported(arch, &moe::gather::Shape { cols: 2688, top_k: 6 })),
    ("moe/permute", |arch| moe::permute::supported(arch, &moe::permute::Shape { n_experts: 128, top_k: 6 })),
    ("moe/relu2", |arch| moe::relu2::supported(arch, &moe::relu2::Shape { cols: 1856 })),
    ("moe/router", |arch| {
        let (n_experts, top_k, n_group, topk_group, norm_topk_prob) = (128, 6, 1, 1, true);
        let shape = moe::router::Shape { n_experts, top_k, n_group, topk_group, norm_topk_prob };
        moe::router::supported(arch, &shape)
    }),
    ("norm/gated_group", |arch| {
        norm::gated_group::supported(arch, &norm::gated_group::Shape { cols: 4096, n_groups: 8 })
    }),
    ("norm/residual_add", |arch| {
        norm::residual_add::supported(arch, &norm::residual_add::Shape { cols: 2688 })
    }),
    ("norm/rms", |arch| norm::rms::supported(arch, &norm::rms::Shape { cols: 2688 })),
    ("quant/fp8", |arch| quant::fp8::supported(arch, &quant::fp8::Shape { cols: 2688 })),
    ("quant/nvfp4", |arch| quant::nvfp4::supported(arch, &quant::nvfp4::Shape { cols: 2688 })),
    ("sampling/argmax", |arch| {
        sampling::argmax::supported(arch, &sampling::argmax::Shape { vocab: 131_072 })
    }),
    ("sampling/logprobs", |arch| {
        sampling::logprobs::supported(arch, &sampling::logprobs::Shape { vocab: 131_072, top_n: 20 })
    }),
    ("sampling/penalties", |arch| {
        sampling::penalties::supported(arch, &sampling::penalties::Shape { vocab: 131_072 })
    }),
    ("sampling/sample", |arch| {
        sampling::sample::supported(arch, &sampling::sample::Shape { vocab: 131_072 })
    }),
];

/// One arm.
#[derive(Serialize)]
struct Arm {
    kernel: &'static str,
    arch: String,
    /// `cpu-reference` or `device`.
    kind: &'static str,
    enabled: bool,
    reason: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let threads = available_parallelism().map_or(1, |n| n.get());
    let (total, free) = (meminfo("MemTotal"), meminfo("MemAvailable"));
    let features = features();
    let mut arms = Vec::new();
    for (kernel, supported) in KERNELS {
        for arch in ARCHS {
            let (result, arch) = (supported(arch), arch.to_string());
            let (enabled, reason) = (result.is_ok(), result.err().map(|unsupported| unsupported.reason));
            arms.push(Arm { kernel, arch: arch.clone(), kind: "cpu-reference", enabled, reason });
            arms.push(Arm { kernel, arch, kind: "device", enabled: false, reason: Some(NO_DEVICE.into()) });
        }
    }
    if args.json {
        let features: serde_json::Map<_, _> =
            features.iter().map(|&(name, found)| (name.to_owned(), found.into())).collect();
        let body = json!({
            "version": env!("CARGO_PKG_VERSION"), "os": std::env::consts::OS, "cpu": std::env::consts::ARCH,
            "cpu_model": cpu_model(), "cpu_features": features, "threads": threads, "memory_bytes": total,
            "memory_available_bytes": free, "debug_assertions": cfg!(debug_assertions), "arms": arms,
        });
        line!("{body}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let size = |bytes_: Option<u64>| bytes_.map_or("unknown".into(), bytes);
    line!("vt {} on {} {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH)?;
    line!("cpu       {}, {threads} threads", cpu_model().unwrap_or_else(|| "unknown".into()))?;
    line!("memory    {}, {} available", size(total), size(free))?;
    for (found, name) in [(true, "features"), (false, "missing")] {
        let names: Vec<_> = features.iter().filter(|f| f.1 == found).map(|f| f.0).collect();
        line!("{name:9} {}", names.join(" "))?;
    }
    if cfg!(debug_assertions) {
        line!("built with debug assertions: slower than --release")?;
    }
    line!("")?;
    for (kernel, supported) in KERNELS {
        let references = ARCHS.map(|arch| match supported(arch) {
            Ok(()) => format!("[{arch}] ENABLED"),
            Err(unsupported) => format!("[{arch}] DISABLED ({})", unsupported.reason),
        });
        line!("{kernel:22} CPU reference  {}", references.join("  "))?;
    }
    line!(
        "{:22} device         {}",
        "all kernels",
        ARCHS.map(|a| format!("[{a}] DISABLED ({NO_DEVICE})")).join("  ")
    )?;
    Ok(ExitCode::SUCCESS)
}

fn cpu_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// What the references' vector loops can use here.
#[cfg(target_arch = "x86_64")]
fn features() -> Vec<(&'static str, bool)> {
    vec![
        ("sse4.2", is_x86_feature_detected!("sse4.2")),
        ("avx", is_x86_feature_detected!("avx")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512vl", is_x86_feature_detected!("avx512vl")),
    ]
}

/// What the references' vector loops can use here.
#[cfg(not(target_arch = "x86_64"))]
fn features() -> Vec<(&'static str, bool)> {
    vec![("neon", cfg!(target_feature = "neon"))]
}
