//! Linear layers: the weight's format and what may enter it name the arm.

use half::bf16;
use vt_kernels::format::{E4m3, Nvfp4Ref};
use vt_kernels::{Arch, Element, Result as KernelResult, Rows, RowsMut, gemm, marlin, quant};

use crate::backend::cpu::{Activations, Options};
use crate::error::Result;
use crate::tensor::Matrix;
use crate::weights::{Fp8Scale, Linear, Param, Weight};

/// Which kernel multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arm {
    /// bf16 × bf16.
    Bf16,
    /// bf16 × FP8 weights.
    Fp8WeightOnly,
    /// FP8 × FP8, activations rounded by a static scale.
    Fp8Static,
    /// FP8 × FP8, activations rounded row by row.
    Fp8Dynamic,
    /// bf16 × NVFP4 weights.
    Nvfp4WeightOnly,
    /// NVFP4 × NVFP4.
    Nvfp4,
}

/// The arm of a layer, or why this architecture has none.
pub(super) fn arm(options: Options, linear: &Linear) -> Result<Arm> {
    let round = options.activations == Activations::Checkpoint;
    let (n, k) = (linear.out_features(), linear.in_features());
    let arch = options.arch;
    let arm = match &linear.weight {
        Weight::Bf16 { .. } => Arm::Bf16,
        Weight::Fp8 { input_scale: Some(_), .. } if round => Arm::Fp8Static,
        Weight::Fp8 { weight_scale: Fp8Scale::PerRow(_), .. } if round => Arm::Fp8Dynamic,
        Weight::Fp8 { .. } => Arm::Fp8WeightOnly,
        Weight::Nvfp4 { input_scale: Some(_), .. } if round => Arm::Nvfp4,
        Weight::Nvfp4 { .. } => Arm::Nvfp4WeightOnly,
    };
    match arm {
        Arm::Bf16 => drop(gemm::bf16::Plan::new(arch, gemm::bf16::Shape { n, k })?),
        Arm::Fp8WeightOnly => drop(marlin::fp8::Plan::new(arch, marlin::fp8::Shape { n, k })?),
        Arm::Fp8Static | Arm::Fp8Dynamic => drop(gemm::fp8::Plan::new(arch, gemm::fp8::Shape { n, k })?),
        Arm::Nvfp4WeightOnly => drop(marlin::nvfp4::Plan::new(arch, marlin::nvfp4::Shape { n, k })?),
        Arm::Nvfp4 => drop(gemm::nvfp4::Plan::new(arch, gemm::nvfp4::Shape { n, k })?),
    }
    Ok(arm)
}

/// `x · Wᵀ + bias`.
pub(super) fn linear<O: Element>(options: Options, linear: &Linear, x: &Matrix<bf16>) -> Result<Matrix<O>> {
    let arm = arm(options, linear)?;
    let mut out = Matrix::zeros(x.rows(), linear.out_features());
    run(options.arch, arm, linear, x.view("x")?, &mut out.view_mut("out")?)?;
    Ok(out)
}

/// Rows `offsets[e]..offsets[e + 1]` of `x` through `experts[e]`, each by the arm of its weights.
///
/// The bits are those of the grouped kernels: a row's result does not depend on the rows beside it.
pub(super) fn grouped(
    options: Options,
    experts: &[&Linear],
    x: &Matrix<bf16>,
    offsets: &[u32],
) -> Result<Matrix<bf16>> {
    let mut out = Matrix::zeros(x.rows(), experts.first().map_or(0, |e| e.out_features()));
    let cols = out.cols();
    for (expert, ends) in experts.iter().zip(offsets.windows(2)) {
        let rows = ends[0] as usize..ends[1] as usize;
        if rows.is_empty() {
            continue;
        }
        let arm = arm(options, expert)?;
        let inputs = x.view("x")?.slice("x", rows.clone())?;
        let outputs = &mut out.data_mut()[rows.start * cols..rows.end * cols];
        let mut outputs = RowsMut::new("out", outputs, rows.len(), cols)?;
        run(options.arch, arm, expert, inputs, &mut outputs)?;
    }
    Ok(out)
}

/// `x · Wᵀ` in f32.
pub(super) fn router(arch: Arch, gate: &Param, x: &Matrix<bf16>) -> Result<Matrix<f32>> {
    let (n, k) = (gate.rows(), gate.cols());
    let wide = gate.to_f32();
    let mut out = Matrix::zeros(x.rows(), n);
    gemm::f32::Plan::new(arch, gemm::f32::Shape { n, k })?.reference(
        x.view("x")?,
        Rows::new("gate", &wide, n, k)?,
        None,
        &mut out.view_mut("out")?,
    )?;
    Ok(out)
}

fn run<O: Element>(
    arch: Arch,
    arm: Arm,
    linear: &Linear,
    x: Rows<'_, bf16>,
    out: &mut RowsMut<'_, O>,
) -> Result<()> {
    let (n, k) = (linear.out_features(), linear.in_features());
    let bias = linear.bias.as_deref();
    match &linear.weight {
        Weight::Bf16 { data, .. } => {
            let b = Rows::new("weight", data, n, k)?;
            gemm::bf16::Plan::new(arch, gemm::bf16::Shape { n, k })?.reference(x, b, bias, out)?;
        }
        Weight::Fp8 { data, weight_scale, input_scale, .. } => {
            let b = Rows::new("weight", data, n, k)?;
            let b_scale = match weight_scale {
                Fp8Scale::PerTensor(scale) => gemm::fp8::Scale::PerTensor(*scale),
                Fp8Scale::PerRow(scales) => gemm::fp8::Scale::PerRow(scales),
            };
            if arm == Arm::Fp8WeightOnly {
                let plan = marlin::fp8::Plan::new(arch, marlin::fp8::Shape { n, k })?;
                plan.reference(x, b, b_scale, bias, out)?;
                return Ok(());
            }
            let plan = gemm::fp8::Plan::new(arch, gemm::fp8::Shape { n, k })?;
            let mut scales = vec![0.0; x.rows()];
            let scale = input_scale.filter(|_| arm == Arm::Fp8Static);
            let codes = fp8_rows(arch, x, scale, &mut scales)?;
            let a = Rows::new("x", &codes, x.rows(), k)?;
            let a_scale = match scale {
                Some(scale) => gemm::fp8::Scale::PerTensor(scale),
                None => gemm::fp8::Scale::PerRow(&scales),
            };
            plan.reference(a, a_scale, b, b_scale, bias, out)?;
        }
        Weight::Nvfp4 { weight, input_scale } => match input_scale.filter(|_| arm == Arm::Nvfp4) {
            None => {
                let plan = marlin::nvfp4::Plan::new(arch, marlin::nvfp4::Shape { n, k })?;
                plan.reference(x, weight.view(), bias, out)?;
            }
            Some(scale) => {
                let plan = gemm::nvfp4::Plan::new(arch, gemm::nvfp4::Shape { n, k })?;
                let (packed, scales) = nvfp4_rows(arch, x, scale)?;
                let packed = Rows::new("x", &packed, x.rows(), k / 2)?;
                let scales = Rows::new("x scales", &scales, x.rows(), k / 16)?;
                let a = Nvfp4Ref::new("x", packed, scales, scale)?;
                plan.reference(a, weight.view(), bias, out)?;
            }
        },
    }
    Ok(())
}

/// FP8 codes of `x`; without a static scale each row has its own, written to `scales`.
fn fp8_rows(
    arch: Arch,
    x: Rows<'_, bf16>,
    scale: Option<f32>,
    scales: &mut [f32],
) -> KernelResult<Vec<E4m3>> {
    let mut codes = vec![E4m3::default(); x.rows() * x.cols()];
    let scale = match scale {
        Some(scale) => quant::fp8::Scale::PerTensor(scale),
        None => quant::fp8::Scale::PerRow(scales),
    };
    quant::fp8::Plan::new(arch, quant::fp8::Shape { cols: x.cols() })?.reference(
        x,
        scale,
        &mut RowsMut::new("codes", &mut codes, x.rows(), x.cols())?,
    )?;
    Ok(codes)
}

/// Packed NVFP4 codes and block scales of `x`.
fn nvfp4_rows(arch: Arch, x: Rows<'_, bf16>, global_scale: f32) -> KernelResult<(Vec<u8>, Vec<u8>)> {
    let (rows, cols) = (x.rows(), x.cols());
    let (mut packed, mut scales) = (vec![0; rows * cols / 2], vec![0; rows * cols / 16]);
    quant::nvfp4::Plan::new(arch, quant::nvfp4::Shape { cols })?.reference(
        x,
        global_scale,
        &mut RowsMut::new("packed", &mut packed, rows, cols / 2)?,
        &mut RowsMut::new("scales", &mut scales, rows, cols / 16)?,
    )?;
    Ok((packed, scales))
}
