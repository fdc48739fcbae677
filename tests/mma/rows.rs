//! Rows of vectors: one dot product with its accumulator, as bits.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use vt_kernels::Arch;
use vt_kernels::mma::{Accumulator, Format, Instruction, Number, Operand, Unit};

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    pub tag: String,
    pub unit: Unit,
    pub a: Vec<u32>,
    pub b: Vec<u32>,
    pub formats: (Format, Format),
    pub scales: Option<(Format, Vec<u8>, Vec<u8>)>,
    pub c: u32,
    pub d: u32,
}

impl Row {
    /// What `unit` makes of the row; `None` if it does not take such operands.
    pub fn through(&self, unit: &Unit) -> Option<u32> {
        let scale = |second: bool| {
            let (format, a, b) = self.scales.as_ref()?;
            Some((*format, if second { &b[..] } else { &a[..] }))
        };
        let a = Operand { format: self.formats.0, bits: &self.a, scale: scale(false) };
        let b = Operand { format: self.formats.1, bits: &self.b, scale: scale(true) };
        unit.dot(a, b, self.c).ok()
    }
}

/// The text of a file, unzipped if its name ends in `.gz`.
pub fn text(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut text = String::new();
    match path.extension().is_some_and(|e| e == "gz") {
        true => flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap(),
        false => (&bytes[..]).read_to_string(&mut text).unwrap(),
    };
    text
}

fn format(name: &str) -> Format {
    match name {
        "bf16" => Format::Bf16,
        "f16" => Format::F16,
        "tf32" => Format::Tf32,
        "e4m3" => Format::E4m3,
        "e5m2" => Format::E5m2,
        "e3m2" => Format::E3m2,
        "e2m3" => Format::E2m3,
        "e2m1" => Format::E2m1,
        "ue8m0" => Format::Ue8m0,
        "ue4m3" => Format::Ue4m3,
        _ => panic!("unknown format {name}"),
    }
}

fn unit(instruction: &str, accumulator: &str) -> Unit {
    let (arch, instruction) = match instruction {
        "amp8" => (Arch::Sm80, Instruction::MmaK8),
        "amp16" => (Arch::Sm80, Instruction::MmaK16),
        "ampt4" => (Arch::Sm80, Instruction::MmaTf32K4),
        "ampt8" => (Arch::Sm80, Instruction::MmaTf32K8),
        "ada8" => (Arch::Sm89, Instruction::MmaK8),
        "ada16" => (Arch::Sm89, Instruction::MmaK16),
        "adaq16" => (Arch::Sm89, Instruction::MmaFp8K16),
        "adaq32" => (Arch::Sm89, Instruction::MmaFp8K32),
        "hop8" => (Arch::Sm90a, Instruction::MmaK8),
        "hop16" => (Arch::Sm90a, Instruction::MmaK16),
        "hopq16" => (Arch::Sm90a, Instruction::MmaFp8K16),
        "hopq32" => (Arch::Sm90a, Instruction::MmaFp8K32),
        "hopt4" => (Arch::Sm90a, Instruction::MmaTf32K4),
        "hopt8" => (Arch::Sm90a, Instruction::MmaTf32K8),
        "wg16" => (Arch::Sm90a, Instruction::WgmmaK16),
        "wgq32" => (Arch::Sm90a, Instruction::WgmmaFp8K32),
        "rtx8" => (Arch::Sm121a, Instruction::MmaK8),
        "rtx16" => (Arch::Sm121a, Instruction::MmaK16),
        "rtxq16" => (Arch::Sm121a, Instruction::MmaFp8K16),
        "rtxq32" => (Arch::Sm121a, Instruction::MmaFp8K32),
        "rtxmx32" => (Arch::Sm121a, Instruction::MmaMxf8K32),
        "gst16" | "gst32" => (Arch::Sm121a, Instruction::MmaFp4K64),
        _ => panic!("unknown tag {instruction}"),
    };
    let accumulator = if accumulator == "f16" { Accumulator::F16 } else { Accumulator::F32 };
    Unit::new(arch, instruction, accumulator).unwrap()
}

fn hex(field: &str) -> Vec<u32> {
    field.split(',').map(|x| u32::from_str_radix(x, 16).unwrap()).collect()
}

fn bytes(field: &str) -> Vec<u8> {
    hex(field).iter().map(|&x| x as u8).collect()
}

/// Rows `TAG:A:B:C a,… b,… c sa,… sb,… d`; those of FP4 have `TAG:SCALE:ELEMENT:C`.
pub fn model_rows(text: &str) -> Vec<Row> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let [tag, a, b, c, sa, sb, d] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let [instruction, first, second, accumulator] = tag.split(':').collect::<Vec<_>>()[..] else {
                panic!("{tag}")
            };
            let (formats, scale) = match instruction {
                "gst16" | "gst32" => ((format(second), format(second)), format(first)),
                _ => ((format(first), format(second)), Format::Ue8m0),
            };
            Row {
                tag: tag.into(),
                unit: unit(instruction, accumulator),
                a: hex(a),
                b: hex(b),
                formats,
                scales: (sa != "-").then(|| (scale, bytes(sa), bytes(sb))),
                c: hex(c)[0],
                d: hex(d)[0],
            }
        })
        .collect()
}

/// The f32 that equals a finite code, as bits, to the code.
fn codes(format: Format) -> HashMap<u32, u32> {
    let value = |code| match format.decode(code) {
        Number::Finite { sig, frac, exp } => {
            let magnitude = sig.unsigned_abs() as f32 * 2f32.powi(exp - frac);
            Some(if code & 0x80 != 0 { -magnitude } else { magnitude })
        }
        _ => None,
    };
    (0..256).filter_map(|code| Some((value(code)?.to_bits(), code))).collect()
}

/// Rows read from an H200: `GPU:FORMAT a,… b,… c d`, operands as f32; FP8 by `wgmma` with c = 0.
pub fn device_rows(text: &str) -> Vec<Row> {
    let (e4m3, e5m2) = (codes(Format::E4m3), codes(Format::E5m2));
    let lines = text.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let [tag, a, b, c, d] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let half = |x: &u32| u32::from(half::f16::from_f32(f32::from_bits(*x)).to_bits());
            let convert = |field: &str| -> Vec<u32> {
                let words = hex(field);
                match tag {
                    "H200:bf16" => words.iter().map(|x| x >> 16).collect(),
                    "H200:fp16" => words.iter().map(half).collect(),
                    "H200:E4M3" => words.iter().map(|x| e4m3[x]).collect(),
                    "H200:E5M2" => words.iter().map(|x| e5m2[x]).collect(),
                    _ => panic!("unknown tag {tag}"),
                }
            };
            let (instruction, format, c) = match tag {
                "H200:bf16" => ("hop16", Format::Bf16, hex(c)[0]),
                "H200:fp16" => ("hop16", Format::F16, hex(c)[0]),
                "H200:E4M3" => ("wgq32", Format::E4m3, 0),
                _ => ("wgq32", Format::E5m2, 0),
            };
            Row {
                tag: tag.into(),
                unit: unit(instruction, "f32"),
                a: convert(a),
                b: convert(b),
                formats: (format, format),
                scales: None,
                c,
                d: hex(d)[0],
            }
        })
        .collect()
}

/// `Err` telling count and first of the rows whose `d` the model misses, per tag.
pub fn mismatches(rows: &[Row], unit: impl Fn(&Row) -> Unit) -> Result<(), String> {
    let wrong: Vec<&Row> = rows.iter().filter(|row| row.through(&unit(row)) != Some(row.d)).collect();
    let Some(first) = wrong.first() else { return Ok(()) };
    let got = first.through(&unit(first));
    Err(format!("{} of {} rows, first {} got {got:x?}: {first:x?}", wrong.len(), rows.len(), first.tag))
}
