//! Routing of tokens to experts and back by its references.

use half::bf16;
use vt_kernels::Arch;
use vt_kernels::moe::{combine as combine_kernel, gather as gather_kernel, permute, router};

use crate::config::Config;
use crate::error::Result;
use crate::tensor::Matrix;
use crate::weights::Param;

/// The experts of each token, and rows ordered by expert.
#[derive(Clone, Debug)]
pub struct Routing {
    pub(super) ids: Matrix<u32>,
    pub(super) weights: Matrix<f32>,
    pub(super) offsets: Vec<u32>,
    source: Vec<u32>,
    position: Vec<u32>,
}

pub(super) fn route(
    arch: Arch,
    config: &Config,
    logits: &Matrix<f32>,
    correction_bias: Option<&Param>,
) -> Result<Routing> {
    let (n_experts, top_k) = (config.n_routed_experts, config.num_experts_per_tok);
    let rows = logits.rows();
    let shape = router::Shape {
        n_experts,
        top_k,
        n_group: config.n_group,
        topk_group: config.topk_group,
        norm_topk_prob: config.norm_topk_prob,
    };
    let bias = correction_bias.map(Param::to_f32);
    let (mut ids, mut weights) = (Matrix::filled(0, rows, top_k), Matrix::zeros(rows, top_k));
    router::Plan::new(arch, shape)?.reference(
        logits.view("router_logits")?,
        bias.as_deref(),
        &mut ids.view_mut("expert_ids")?,
        &mut weights.view_mut("expert_weights")?,
    )?;
    let mut offsets = vec![0; n_experts + 1];
    let (mut source, mut position) = (vec![0; rows * top_k], vec![0; rows * top_k]);
    let plan = permute::Plan::new(arch, permute::Shape { n_experts, top_k })?;
    plan.reference(ids.view("expert_ids")?, &mut offsets, &mut source, &mut position)?;
    Ok(Routing { ids, weights, offsets, source, position })
}

pub(super) fn gather(arch: Arch, x: &Matrix<bf16>, routing: &Routing) -> Result<Matrix<bf16>> {
    let shape = gather_kernel::Shape { cols: x.cols(), top_k: routing.ids.cols() };
    let mut out = Matrix::zeros(routing.source.len(), x.cols());
    let plan = gather_kernel::Plan::new(arch, shape)?;
    plan.reference(x.view("x")?, &routing.source, &mut out.view_mut("out")?)?;
    Ok(out)
}

pub(super) fn combine(
    arch: Arch,
    expert_out: &Matrix<bf16>,
    routing: &Routing,
    shared: Option<&Matrix<bf16>>,
    routed_scaling_factor: f32,
) -> Result<Matrix<bf16>> {
    let shape = combine_kernel::Shape { cols: expert_out.cols(), top_k: routing.ids.cols() };
    let mut out = Matrix::zeros(routing.ids.rows(), expert_out.cols());
    let shared = shared.map(|shared| shared.view("shared")).transpose()?;
    combine_kernel::Plan::new(arch, shape)?.reference(
        expert_out.view("expert_out")?,
        &routing.position,
        routing.weights.view("expert_weights")?,
        shared,
        &mut out.view_mut("out")?,
        routed_scaling_factor,
    )?;
    Ok(out)
}
