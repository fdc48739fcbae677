//! Linear layers and parameters from their tensors.

use half::{bf16, f16};
use safetensors::Dtype;
use vt_kernels::format::{E4m3, NVFP4_BLOCK, Nvfp4};

use super::{Fp8Scale, Linear, Param, Weight};
use crate::checkpoint::{Checkpoint, Entry, Span};
use crate::error::{Error, Result};
use crate::quant::{Algo, QuantConfig};

/// A checkpoint with its rules of precision.
pub(super) struct Source<'a> {
    pub(super) checkpoint: Checkpoint<'a>,
    pub(super) quant: QuantConfig,
}

/// What a scale is for: one of weights may be zero, then they all are; one of activations divides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scales {
    Weights,
    Activations,
}

impl Source<'_> {
    /// A tensor of this shape, or the error that says which shape it has.
    fn shaped(&self, name: &str, shape: &[usize]) -> Result<&Entry> {
        let entry = self.checkpoint.get(name)?;
        if entry.shape == shape {
            return Ok(entry);
        }
        Err(self.checkpoint.error(name, format!("shape {:?}", entry.shape), format!("{shape:?}")))
    }

    /// A tensor of this type and shape.
    fn typed(&self, name: &str, dtype: Dtype, shape: &[usize]) -> Result<&Entry> {
        let entry = self.checkpoint.get(name)?;
        if entry.dtype != dtype {
            return Err(self.wrong_type(name, entry.dtype, &dtype.to_string()));
        }
        self.shaped(name, shape)
    }

    fn wrong_type(&self, name: &str, got: Dtype, expected: &str) -> Error {
        self.checkpoint.error(name, format!("type {got}"), expected)
    }

    /// Elements as f32: from f32, bf16 or f16.
    fn floats(&self, name: &str, dtype: Dtype, span: Span) -> Result<Vec<f32>> {
        Ok(match dtype {
            Dtype::F32 => self.checkpoint.read(name, span)?,
            Dtype::BF16 => {
                let values: Vec<bf16> = self.checkpoint.read(name, span)?;
                values.iter().map(|x| x.to_f32()).collect()
            }
            Dtype::F16 => {
                let values: Vec<f16> = self.checkpoint.read(name, span)?;
                values.iter().map(|x| x.to_f32()).collect()
            }
            got => return Err(self.wrong_type(name, got, "F32, BF16 or F16")),
        })
    }

    /// Elements as bf16; f32 and f16 only where bf16 holds them exactly.
    fn bf16s(&self, name: &str, dtype: Dtype, span: Span) -> Result<Vec<bf16>> {
        if dtype == Dtype::BF16 {
            return self.checkpoint.read(name, span);
        }
        let wide = self.floats(name, dtype, span)?;
        let narrow: Vec<bf16> = wide.iter().map(|&x| bf16::from_f32(x)).collect();
        match wide.iter().zip(&narrow).find(|(x, n)| n.to_f32().to_bits() != x.to_bits()) {
            Some((x, _)) => {
                let expected = format!("values of {dtype} that bf16 holds exactly");
                Err(self.checkpoint.error(name, x, expected))
            }
            None => Ok(narrow),
        }
    }

    /// A vector or matrix in its own type, f32 or bf16.
    pub(super) fn param(&self, name: &str, shape: &[usize]) -> Result<Param> {
        let entry = self.shaped(name, shape)?;
        if entry.dtype != Dtype::F32 {
            return self.bf16_param(name, shape);
        }
        let (rows, cols) = rows_cols(shape);
        Ok(Param::F32 { data: self.floats(name, entry.dtype, entry.span)?, rows, cols })
    }

    /// A parameter as bf16.
    pub(super) fn bf16_param(&self, name: &str, shape: &[usize]) -> Result<Param> {
        let entry = self.shaped(name, shape)?;
        let (rows, cols) = rows_cols(shape);
        Ok(Param::Bf16 { data: self.bf16s(name, entry.dtype, entry.span)?, rows, cols })
    }

    /// A vector as f32, all of it finite.
    pub(super) fn f32_param(&self, name: &str, len: usize) -> Result<Param> {
        let entry = self.shaped(name, &[len])?;
        let data = self.floats(name, entry.dtype, entry.span)?;
        match data.iter().find(|x| !x.is_finite()) {
            Some(x) => Err(self.checkpoint.error(name, x, "finite numbers")),
            None => Ok(Param::F32 { data, rows: 1, cols: len }),
        }
    }

    /// Taps `[channels, width]`, stored as such or as `[channels, 1, width]`.
    pub(super) fn taps(&self, name: &str, channels: usize, width: usize) -> Result<Param> {
        let entry = match self.checkpoint.get(name)?.shape.len() {
            2 => self.shaped(name, &[channels, width])?,
            _ => self.shaped(name, &[channels, 1, width])?,
        };
        let data = self.bf16s(name, entry.dtype, entry.span)?;
        Ok(Param::Bf16 { data, rows: channels, cols: width })
    }

    /// A scale that may be absent: one number, of shape `[]` or `[1]`.
    pub(super) fn scale(&self, name: &str, kind: Scales) -> Result<Option<f32>> {
        match self.checkpoint.has(name) {
            true => self.required_scale(name, kind).map(Some),
            false => Ok(None),
        }
    }

    fn required_scale(&self, name: &str, kind: Scales) -> Result<f32> {
        let entry = self.checkpoint.get(name)?;
        if !matches!(entry.shape[..], [] | [1]) {
            return Err(self.checkpoint.error(name, format!("shape {:?}", entry.shape), "one number, []"));
        }
        Ok(self.scales(name, entry, kind)?[0])
    }

    /// Scales: finite and not negative.
    fn scales(&self, name: &str, entry: &Entry, kind: Scales) -> Result<Vec<f32>> {
        if entry.dtype != Dtype::F32 {
            return Err(self.wrong_type(name, entry.dtype, "F32"));
        }
        let scales: Vec<f32> = self.checkpoint.read(name, entry.span)?;
        let good = |s: f32| s.is_finite() && (s > 0.0 || s == 0.0 && kind == Scales::Weights);
        match scales.iter().find(|scale| !good(**scale)) {
            Some(scale) => Err(self.checkpoint.error(name, scale, "a finite number above 0")),
            None => Ok(scales),
        }
    }

    /// The layer `module` `[n, k]`, in the precision that the rules give it.
    pub(super) fn linear(&self, module: &str, n: usize, k: usize, bias: bool) -> Result<Linear> {
        let weight = match self.quant.resolve(module)? {
            Algo::None => self.plain(module, n, k)?,
            Algo::Fp8 => self.fp8(module, n, k)?,
            algo @ (Algo::Nvfp4 | Algo::W4a16Nvfp4) => self.nvfp4(module, n, k, algo)?,
        };
        let bias = match bias {
            false => None,
            true => Some(self.f32_param(&format!("{module}.bias"), n)?.to_f32()),
        };
        Ok(Linear { weight, bias })
    }

    fn plain(&self, module: &str, n: usize, k: usize) -> Result<Weight> {
        let name = format!("{module}.weight");
        let entry = self.checkpoint.get(&name)?;
        if matches!(entry.dtype, Dtype::F8_E4M3 | Dtype::U8) {
            let expected = "BF16, as no rule of the quantisation names this layer";
            return Err(self.wrong_type(&name, entry.dtype, expected));
        }
        let entry = self.shaped(&name, &[n, k])?;
        Ok(Weight::Bf16 { data: self.bf16s(&name, entry.dtype, entry.span)?, rows: n, cols: k })
    }

    /// A scale for all goes with a static scale of the activations; a scale for each row need not.
    fn fp8(&self, module: &str, n: usize, k: usize) -> Result<Weight> {
        let name = |suffix: &str| format!("{module}.{suffix}");
        let entry = self.typed(&name("weight"), Dtype::F8_E4M3, &[n, k])?;
        let data: Vec<E4m3> = self.checkpoint.read(&name("weight"), entry.span)?;
        let scale = self.checkpoint.get(&name("weight_scale"))?;
        let (weight_scale, input_scale) = match scale.shape[..] {
            [rows] | [rows, 1] if rows == n && n != 1 => (
                Fp8Scale::PerRow(self.scales(&name("weight_scale"), scale, Scales::Weights)?),
                self.scale(&name("input_scale"), Scales::Activations)?,
            ),
            [] | [1] => (
                Fp8Scale::PerTensor(self.required_scale(&name("weight_scale"), Scales::Weights)?),
                Some(self.required_scale(&name("input_scale"), Scales::Activations)?),
            ),
            _ => {
                let got = format!("shape {:?}", scale.shape);
                let expected = format!("[], [{n}] or [{n}, 1]");
                return Err(self.checkpoint.error(&name("weight_scale"), got, expected));
            }
        };
        Ok(Weight::Fp8 { data, rows: n, cols: k, weight_scale, input_scale })
    }

    fn nvfp4(&self, module: &str, n: usize, k: usize, algo: Algo) -> Result<Weight> {
        let name = |suffix: &str| format!("{module}.{suffix}");
        if !k.is_multiple_of(NVFP4_BLOCK) {
            let expected = format!("a multiple of {NVFP4_BLOCK} for NVFP4");
            return Err(self.checkpoint.error(&name("weight"), format!("{k} inputs"), expected));
        }
        let weight = self.typed(&name("weight"), Dtype::U8, &[n, k / 2])?;
        let scale = self.typed(&name("weight_scale"), Dtype::F8_E4M3, &[n, k / NVFP4_BLOCK])?;
        let packed: Vec<u8> = self.checkpoint.read(&name("weight"), weight.span)?;
        let scales: Vec<u8> = self.checkpoint.read(&name("weight_scale"), scale.span)?;
        let most = scales.iter().fold(0, |most, code| *code.max(&most));
        if most >= 0x7f {
            let got = format!("code {most:#04x}");
            return Err(self.checkpoint.error(&name("weight_scale"), got, "numbers that are not negative"));
        }
        let global_scale = self.required_scale(&name("weight_scale_2"), Scales::Weights)?;
        let input_name = name("input_scale");
        let input_scale = match algo {
            Algo::Nvfp4 => Some(self.required_scale(&input_name, Scales::Activations)?),
            // Some exporters leave one behind; activations of such a layer are not rounded.
            _ => self.scale(&input_name, Scales::Activations)?.and(None),
        };
        let weight = Nvfp4::new("weight", n, k, packed, scales, global_scale)?;
        Ok(Weight::Nvfp4 { weight, input_scale })
    }

    /// Expert `e`'s layer `[n, k]` from the tensor `name` of all, `[experts, n, k]`; only ever in bf16.
    pub(super) fn fused(&self, name: &str, e: usize, experts: usize, n: usize, k: usize) -> Result<Linear> {
        if self.quant.resolve(name)? != Algo::None {
            let reason = "experts in one tensor are only known in bf16".into();
            return Err(Error::Unsupported { what: format!("quantised {name}"), reason });
        }
        let entry = self.shaped(name, &[experts, n, k])?;
        let Some(span) = entry.span.part(e, experts) else {
            return Err(self.checkpoint.error(
                name,
                format!("no part {e}"),
                format!("{experts} equal parts"),
            ));
        };
        Ok(Linear {
            weight: Weight::Bf16 { data: self.bf16s(name, entry.dtype, span)?, rows: n, cols: k },
            bias: None,
        })
    }
}

/// A vector is one row.
fn rows_cols(shape: &[usize]) -> (usize, usize) {
    match shape {
        [rows, cols] => (*rows, *cols),
        _ => (1, shape.iter().product()),
    }
}
