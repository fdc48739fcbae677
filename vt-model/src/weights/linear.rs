//! Linear layers and parameters from their tensors.

use half::{bf16, f16};
use safetensors::Dtype;
use vt_kernels::format::{E4m3, NVFP4_BLOCK, Nvfp4};

use super::{Fp8Scale, Linear, Param, Weight};
use crate::checkpoint::{Checkpoint, Entry};
use crate::error::{Error, Result};
use crate::quant::{Algo, QuantConfig};

/// A checkpoint with its rules of precision.
pub(super) struct Source<'a> {
    pub(super) checkpoint: Checkpoint<'a>,
    pub(super) quant: QuantConfig,
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

    fn wrong_type(&self, name: &str, got: Dtype, expected: &str) -> Error {
        self.checkpoint.error(name, format!("type {got:?}"), expected)
    }

    /// Elements as f32: from f32, bf16 or f16.
    fn floats(&self, name: &str, entry: &Entry) -> Result<Vec<f32>> {
        Ok(match entry.dtype {
            Dtype::F32 => self.checkpoint.read(name, entry)?,
            Dtype::BF16 => {
                let values: Vec<bf16> = self.checkpoint.read(name, entry)?;
                values.iter().map(|x| x.to_f32()).collect()
            }
            Dtype::F16 => {
                let values: Vec<f16> = self.checkpoint.read(name, entry)?;
                values.iter().map(|x| x.to_f32()).collect()
            }
            got => return Err(self.wrong_type(name, got, "F32, BF16 or F16")),
        })
    }

    /// Elements as bf16; f32 and f16 only where bf16 holds them exactly.
    fn bf16s(&self, name: &str, entry: &Entry) -> Result<Vec<bf16>> {
        if entry.dtype == Dtype::BF16 {
            return self.checkpoint.read(name, entry);
        }
        let wide = self.floats(name, entry)?;
        let narrow: Vec<bf16> = wide.iter().map(|&x| bf16::from_f32(x)).collect();
        match wide.iter().zip(&narrow).find(|(x, n)| n.to_f32().to_bits() != x.to_bits()) {
            Some((x, _)) => {
                Err(self.checkpoint.error(name, format!("{x}"), "values that bf16 holds exactly"))
            }
            None => Ok(narrow),
        }
    }

    /// A vector or matrix in its own type, f32 or bf16.
    pub(super) fn param(&self, name: &str, shape: &[usize]) -> Result<Param> {
        let entry = self.shaped(name, shape)?;
        let cols = shape.last().copied().unwrap_or(1);
        let rows = shape.iter().rev().skip(1).product();
        Ok(match entry.dtype {
            Dtype::F32 => Param::F32 { data: self.floats(name, entry)?, rows, cols },
            _ => Param::Bf16 { data: self.bf16s(name, entry)?, rows, cols },
        })
    }

    /// A parameter as bf16.
    pub(super) fn bf16_param(&self, name: &str, shape: &[usize]) -> Result<Param> {
        let entry = self.shaped(name, shape)?;
        let cols = shape.last().copied().unwrap_or(1);
        let rows = shape.iter().rev().skip(1).product();
        Ok(Param::Bf16 { data: self.bf16s(name, entry)?, rows, cols })
    }

    /// A vector as f32.
    pub(super) fn f32_param(&self, name: &str, len: usize) -> Result<Param> {
        let entry = self.shaped(name, &[len])?;
        Ok(Param::F32 { data: self.floats(name, entry)?, rows: 1, cols: len })
    }

    /// Taps `[channels, width]`, stored as such or as `[channels, 1, width]`.
    pub(super) fn taps(&self, name: &str, channels: usize, width: usize) -> Result<Param> {
        let entry = self.checkpoint.get(name)?;
        if entry.shape != [channels, 1, width] && entry.shape != [channels, width] {
            let expected = format!("[{channels}, 1, {width}]");
            return Err(self.checkpoint.error(name, format!("shape {:?}", entry.shape), expected));
        }
        Ok(Param::Bf16 { data: self.bf16s(name, entry)?, rows: channels, cols: width })
    }

    /// A scale that may be absent: one positive number, of shape `[]` or `[1]`.
    pub(super) fn scale(&self, name: &str) -> Result<Option<f32>> {
        let Some(entry) = self.checkpoint.find(name) else { return Ok(None) };
        if entry.shape.iter().product::<usize>() != 1 {
            return Err(self.checkpoint.error(name, format!("shape {:?}", entry.shape), "one number, []"));
        }
        self.scales(name, entry).map(|scales| scales.first().copied())
    }

    /// Scales: finite and positive.
    fn scales(&self, name: &str, entry: &Entry) -> Result<Vec<f32>> {
        if entry.dtype != Dtype::F32 {
            return Err(self.wrong_type(name, entry.dtype, "F32"));
        }
        let scales: Vec<f32> = self.checkpoint.read(name, entry)?;
        match scales.iter().find(|s| !(s.is_finite() && **s > 0.0)) {
            Some(scale) => Err(self.checkpoint.error(name, scale, "a finite number above 0")),
            None => Ok(scales),
        }
    }

    fn required_scale(&self, name: &str) -> Result<f32> {
        self.scale(name)?.ok_or_else(|| self.checkpoint.error(name, "missing", "a tensor of this name"))
    }

    /// The layer `{prefix}{module}`, in the precision that the rules give it.
    pub(super) fn linear(&self, module: &str, n: usize, k: usize, bias: bool) -> Result<Linear> {
        let name = |suffix: &str| format!("{module}.{suffix}");
        let weight_name = name("weight");
        let weight = match self.quant.resolve(module)? {
            Algo::None => {
                let entry = self.shaped(&weight_name, &[n, k])?;
                if matches!(entry.dtype, Dtype::F8_E4M3 | Dtype::U8) {
                    let expected = "BF16: no rule of the quantisation names this layer";
                    return Err(self.wrong_type(&weight_name, entry.dtype, expected));
                }
                Weight::Bf16 { data: self.bf16s(&weight_name, entry)?, rows: n, cols: k }
            }
            Algo::Fp8 => self.fp8(module, n, k)?,
            algo @ (Algo::Nvfp4 | Algo::W4a16Nvfp4) => {
                let weight = self.nvfp4(module, n, k)?;
                let input_scale = match algo {
                    Algo::Nvfp4 => Some(self.required_scale(&name("input_scale"))?),
                    // Some exporters leave one behind; activations of such a layer are not rounded.
                    _ => self.scale(&name("input_scale"))?.and(None),
                };
                Weight::Nvfp4 { weight, input_scale }
            }
        };
        let bias_name = name("bias");
        let bias = match bias {
            false => None,
            true => Some(self.floats(&bias_name, self.shaped(&bias_name, &[n])?)?),
        };
        Ok(Linear { weight, bias })
    }

    fn fp8(&self, module: &str, n: usize, k: usize) -> Result<Weight> {
        let name = format!("{module}.weight");
        let entry = self.shaped(&name, &[n, k])?;
        if entry.dtype != Dtype::F8_E4M3 {
            return Err(self.wrong_type(&name, entry.dtype, "F8_E4M3"));
        }
        let data: Vec<E4m3> = self.checkpoint.read(&name, entry)?;
        let scale_name = format!("{module}.weight_scale");
        let scale = self.checkpoint.get(&scale_name)?;
        let weight_scale = match scale.shape[..] {
            [] | [1] => Fp8Scale::PerTensor(self.required_scale(&scale_name)?),
            [rows] | [rows, 1] if rows == n => Fp8Scale::PerRow(self.scales(&scale_name, scale)?),
            _ => {
                let got = format!("shape {:?}", scale.shape);
                return Err(self.checkpoint.error(&scale_name, got, format!("[], [{n}] or [{n}, 1]")));
            }
        };
        let input_name = format!("{module}.input_scale");
        let input_scale = match weight_scale {
            Fp8Scale::PerTensor(_) => Some(self.required_scale(&input_name)?),
            Fp8Scale::PerRow(_) => self.scale(&input_name)?,
        };
        Ok(Weight::Fp8 { data, rows: n, cols: k, weight_scale, input_scale })
    }

    fn nvfp4(&self, module: &str, n: usize, k: usize) -> Result<Nvfp4> {
        let (name, scale_name) = (format!("{module}.weight"), format!("{module}.weight_scale"));
        if !k.is_multiple_of(NVFP4_BLOCK) {
            return Err(self.checkpoint.error(&name, format!("{k} inputs"), "a multiple of 16 for NVFP4"));
        }
        let entry = self.shaped(&name, &[n, k / 2])?;
        if entry.dtype != Dtype::U8 {
            return Err(self.wrong_type(&name, entry.dtype, "U8, two e2m1 a byte"));
        }
        let scale = self.shaped(&scale_name, &[n, k / NVFP4_BLOCK])?;
        if scale.dtype != Dtype::F8_E4M3 {
            return Err(self.wrong_type(&scale_name, scale.dtype, "F8_E4M3"));
        }
        let packed: Vec<u8> = self.checkpoint.read(&name, entry)?;
        let scales: Vec<u8> = self.checkpoint.read(&scale_name, scale)?;
        if let Some(at) = scales.iter().position(|s| s & 0x80 != 0 || *s == 0x7f) {
            let got = format!("code {:#04x} at {at}", scales[at]);
            return Err(self.checkpoint.error(&scale_name, got, "positive numbers"));
        }
        let global_scale = self.required_scale(&format!("{module}.weight_scale_2"))?;
        Ok(Nvfp4::new("weight", n, k, packed, scales, global_scale)?)
    }

    /// Experts from one tensor `[experts, n, k]`: expert `e`'s layer in bf16.
    pub(super) fn fused(&self, name: &str, e: usize, experts: usize, n: usize, k: usize) -> Result<Linear> {
        let entry = self.shaped(name, &[experts, n, k])?;
        if entry.dtype != Dtype::BF16 {
            return Err(self.wrong_type(name, entry.dtype, "BF16: fused experts are not quantised"));
        }
        let data = self.checkpoint.read_slice(name, entry, e, experts)?;
        Ok(Linear { weight: Weight::Bf16 { data, rows: n, cols: k }, bias: None })
    }
}
