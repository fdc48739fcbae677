//! The Mamba2 mixer's steps by their references.

use std::ops::Range;

use half::bf16;
use vt_kernels::{Arch, Element, Rows, RowsMut, conv1d, mamba2, norm};

use crate::backend::cpu::Cpu;
use crate::backend::{CacheSize, MambaCall};
use crate::config::{Config, StateDtype};
use crate::error::{Error, Result};
use crate::tensor::Matrix;
use crate::weights::Param;

/// States of one Mamba layer, a row for each slot.
#[derive(Clone, Debug)]
pub struct MambaCache {
    /// Raw inputs of the conv, `[slots, conv_dim, conv_kernel - 1]`.
    pub(super) conv: Matrix<bf16>,
    /// SSM state, `[slots, heads, head_dim, d_state]`.
    pub(super) ssm: Ssm,
}

#[derive(Clone, Debug)]
pub(super) enum Ssm {
    F32(Matrix<f32>),
    Bf16(Matrix<bf16>),
}

impl MambaCache {
    pub(super) fn new(config: &Config, size: &CacheSize) -> Result<Self> {
        let history = config.conv_dim() * (config.conv_kernel - 1);
        let conv = Matrix::try_filled("max_seqs", bf16::ZERO, size.slots, history)?;
        let state = config.d_inner() * config.ssm_state_size;
        let ssm = match config.mamba_ssm_cache_dtype {
            StateDtype::F32 => Ssm::F32(Matrix::try_filled("max_seqs", 0.0, size.slots, state)?),
            StateDtype::Bf16 => Ssm::Bf16(Matrix::try_filled("max_seqs", bf16::ZERO, size.slots, state)?),
        };
        Ok(MambaCache { conv, ssm })
    }

    pub(super) fn read(&self, slots: &[i32]) -> (Vec<bf16>, Vec<f32>) {
        let conv = slots.iter().flat_map(|&slot| self.conv.row(slot as usize)).copied().collect();
        let ssm = match &self.ssm {
            Ssm::F32(state) => gather_states(state, slots),
            Ssm::Bf16(state) => gather_states(state, slots),
        };
        (conv, ssm.data().to_vec())
    }

    pub(super) fn clear(&mut self, slot: usize) {
        clear_row(&mut self.conv, slot);
        match &mut self.ssm {
            Ssm::F32(state) => clear_row(state, slot),
            Ssm::Bf16(state) => clear_row(state, slot),
        }
    }
}

fn clear_row<T: Element>(matrix: &mut Matrix<T>, row: usize) {
    let cols = matrix.cols();
    matrix.data_mut()[row * cols..][..cols].fill(T::from_f32(0.0));
}

/// Rows of the tokens that decode: they come first.
fn decodes(call: &MambaCall<'_, Cpu>) -> Range<usize> {
    0..call.batch.n_decode
}

/// Rows of the tokens that prefill.
fn prefills(call: &MambaCall<'_, Cpu>) -> Range<usize> {
    call.batch.n_decode..call.batch.total_tokens()
}

/// The rows `rows` of `matrix`, to be written.
fn rows_mut(matrix: &mut Matrix<bf16>, rows: Range<usize>) -> Result<RowsMut<'_, bf16>> {
    let cols = matrix.cols();
    let data = &mut matrix.data_mut()[rows.start * cols..rows.end * cols];
    Ok(RowsMut::new("out", data, rows.len(), cols)?)
}

pub(super) fn conv_update(arch: Arch, call: &mut MambaCall<'_, Cpu>, xbc: Range<usize>) -> Result<()> {
    let config = call.config;
    let shape = conv1d::update::Shape { channels: config.conv_dim(), width: config.conv_kernel, silu: true };
    let rows = decodes(call);
    let weight = bf16_param("conv1d.weight", &call.weights.conv_weight)?;
    let bias = call.weights.conv_bias.as_ref().map(|b| bf16_param("conv1d.bias", b)).transpose()?;
    let inputs = conv1d::update::Inputs {
        x: call.zxbcdt.view("zxbcdt")?.slice("zxbcdt", rows.clone())?.columns("xBC", xbc)?,
        weight: Rows::new("conv1d.weight", weight, config.conv_dim(), config.conv_kernel)?,
        bias,
        slots: &call.batch.slots[rows.clone()],
    };
    let mut out = rows_mut(call.out, rows)?;
    let plan = conv1d::update::Plan::new(arch, shape)?;
    plan.reference(&inputs, &mut call.cache.conv.view_mut("conv_state")?, &mut out)?;
    Ok(())
}

pub(super) fn conv_forward(arch: Arch, call: &mut MambaCall<'_, Cpu>, xbc: Range<usize>) -> Result<()> {
    let config = call.config;
    let shape = conv1d::forward::Shape { channels: config.conv_dim(), width: config.conv_kernel, silu: true };
    let rows = prefills(call);
    let weight = bf16_param("conv1d.weight", &call.weights.conv_weight)?;
    let bias = call.weights.conv_bias.as_ref().map(|b| bf16_param("conv1d.bias", b)).transpose()?;
    let n_decode = call.batch.n_decode;
    let inputs = conv1d::forward::Inputs {
        x: call.zxbcdt.view("zxbcdt")?.slice("zxbcdt", rows.clone())?.columns("xBC", xbc)?,
        weight: Rows::new("conv1d.weight", weight, config.conv_dim(), config.conv_kernel)?,
        bias,
        cu_seqlens: &call.batch.prefill_cu_seqlens(),
        slots: &call.batch.slots[n_decode..],
        has_initial: &call.batch.has_initial[n_decode..],
    };
    let mut out = rows_mut(call.out, rows)?;
    let plan = conv1d::forward::Plan::new(arch, shape)?;
    plan.reference(&inputs, &mut call.cache.conv.view_mut("conv_state")?, &mut out)?;
    Ok(())
}

/// Column ranges of `x`, `B`, `C` in the conv's output, and of `dt` in the input projection's.
struct Columns {
    x: Range<usize>,
    b: Range<usize>,
    c: Range<usize>,
    dt: Range<usize>,
}

fn columns(config: &Config) -> Columns {
    let (inner, groups) = (config.d_inner(), config.n_groups * config.ssm_state_size);
    let dt = inner + config.conv_dim();
    Columns {
        x: 0..inner,
        b: inner..inner + groups,
        c: inner + groups..inner + 2 * groups,
        dt: dt..dt + config.mamba_num_heads,
    }
}

pub(super) fn state_update(arch: Arch, call: &mut MambaCall<'_, Cpu>, conv: &Matrix<bf16>) -> Result<()> {
    let config = call.config;
    let shape = mamba2::state_update::Shape {
        n_heads: config.mamba_num_heads,
        head_dim: config.mamba_head_dim,
        n_groups: config.n_groups,
        d_state: config.ssm_state_size,
        dt_softplus: true,
        dt_limit: config.time_step_limit,
    };
    let rows = decodes(call);
    let columns = columns(config);
    let conv = conv.view("conv")?.slice("conv", rows.clone())?;
    let inputs = mamba2::state_update::Inputs {
        x: conv.columns("x", columns.x)?,
        dt: call.zxbcdt.view("zxbcdt")?.slice("zxbcdt", rows.clone())?.columns("dt", columns.dt)?,
        A: f32_param("A", &call.weights.a)?,
        B: conv.columns("B", columns.b)?,
        C: conv.columns("C", columns.c)?,
        D: Some(f32_param("D", &call.weights.d)?),
        z: None,
        dt_bias: Some(f32_param("dt_bias", &call.weights.dt_bias)?),
        slots: &call.batch.slots[rows.clone()],
    };
    let mut out = rows_mut(call.out, rows)?;
    let plan = mamba2::state_update::Plan::new(arch, shape)?;
    match &mut call.cache.ssm {
        Ssm::F32(state) => plan.reference(&inputs, &mut state.view_mut("state")?, &mut out)?,
        Ssm::Bf16(state) => plan.reference(&inputs, &mut state.view_mut("state")?, &mut out)?,
    }
    Ok(())
}

pub(super) fn chunk_scan(arch: Arch, call: &mut MambaCall<'_, Cpu>, conv: &Matrix<bf16>) -> Result<()> {
    let config = call.config;
    let shape = mamba2::chunk_scan::Shape {
        n_heads: config.mamba_num_heads,
        head_dim: config.mamba_head_dim,
        n_groups: config.n_groups,
        d_state: config.ssm_state_size,
        chunk_size: config.chunk_size,
        dt_softplus: true,
        dt_limit: config.time_step_limit,
    };
    let (rows, n_decode) = (prefills(call), call.batch.n_decode);
    let (slots, columns) = (&call.batch.slots[n_decode..], columns(config));
    let conv = conv.view("conv")?.slice("conv", rows.clone())?;
    let initial = match &call.cache.ssm {
        Ssm::F32(state) => gather_states(state, slots),
        Ssm::Bf16(state) => gather_states(state, slots),
    };
    let inputs = mamba2::chunk_scan::Inputs {
        x: conv.columns("x", columns.x)?,
        dt: call.zxbcdt.view("zxbcdt")?.slice("zxbcdt", rows.clone())?.columns("dt", columns.dt)?,
        A: f32_param("A", &call.weights.a)?,
        B: conv.columns("B", columns.b)?,
        C: conv.columns("C", columns.c)?,
        D: Some(f32_param("D", &call.weights.d)?),
        z: None,
        dt_bias: Some(f32_param("dt_bias", &call.weights.dt_bias)?),
        cu_seqlens: &call.batch.prefill_cu_seqlens(),
        initial_states: Some(initial.view("initial_states")?),
        has_initial: &call.batch.has_initial[n_decode..],
    };
    let mut finals = Matrix::zeros(initial.rows(), initial.cols());
    let plan = mamba2::chunk_scan::Plan::new(arch, shape)?;
    plan.reference(&inputs, &mut rows_mut(call.out, rows)?, &mut finals.view_mut("final_states")?)?;
    match &mut call.cache.ssm {
        Ssm::F32(state) => scatter_states(state, slots, &finals),
        Ssm::Bf16(state) => scatter_states(state, slots, &finals),
    }
    Ok(())
}

fn gather_states<T: Element>(states: &Matrix<T>, slots: &[i32]) -> Matrix<f32> {
    let mut out = Matrix::zeros(slots.len(), states.cols());
    for (row, &slot) in out.data_mut().chunks_exact_mut(states.cols()).zip(slots) {
        for (out, state) in row.iter_mut().zip(states.row(slot as usize)) {
            *out = state.to_f32();
        }
    }
    out
}

fn scatter_states<T: Element>(states: &mut Matrix<T>, slots: &[i32], finals: &Matrix<f32>) {
    let cols = states.cols();
    for (i, &slot) in slots.iter().enumerate() {
        let row = &mut states.data_mut()[slot as usize * cols..][..cols];
        for (state, value) in row.iter_mut().zip(finals.row(i)) {
            *state = T::from_f32(*value);
        }
    }
}

pub(super) fn gated_norm(
    arch: Arch,
    config: &Config,
    weight: &Param,
    y: &Matrix<bf16>,
    zxbcdt: &Matrix<bf16>,
) -> Result<Matrix<bf16>> {
    let shape = norm::gated_group::Shape { cols: config.d_inner(), n_groups: config.n_groups };
    let plan = norm::gated_group::Plan::new(arch, shape)?;
    let mut out = Matrix::zeros(y.rows(), y.cols());
    let gate = zxbcdt.view("zxbcdt")?.columns("z", 0..config.d_inner())?;
    let (y, mut view) = (y.view("y")?, out.view_mut("out")?);
    let eps = config.layer_norm_epsilon;
    match weight {
        Param::Bf16 { data, .. } => plan.reference(y, gate, Some(data.as_slice()), &mut view, eps)?,
        Param::F32 { data, .. } => plan.reference(y, gate, Some(data.as_slice()), &mut view, eps)?,
    }
    Ok(out)
}

fn bf16_param<'a>(name: &str, param: &'a Param) -> Result<&'a [bf16]> {
    match param {
        Param::Bf16 { data, .. } => Ok(data),
        Param::F32 { .. } => Err(Error::Request(format!("{name}: f32, expected bf16"))),
    }
}

fn f32_param<'a>(name: &str, param: &'a Param) -> Result<&'a [f32]> {
    match param {
        Param::F32 { data, .. } => Ok(data),
        Param::Bf16 { .. } => Err(Error::Request(format!("{name}: bf16, expected f32"))),
    }
}
