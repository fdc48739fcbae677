//! The token gate: tokens of a run against those of a golden file.
//!
//! Two runs that round differently may choose different tokens where the oracle itself hardly decided. So the
//! oracle's margin at the first difference is what a verdict hangs on: under the noise floor of the precision
//! it is a near tie and what follows says nothing (unless the oracle's token is fed), at or over it the run is
//! wrong.

use serde::Serialize;

use crate::backend::cpu::Activations;
use crate::golden::Row;
use crate::weights::{Weight, Weights};

mod drive;

pub use drive::{decode, prefill};

/// How a model is rounded, which says how far its logits may be from the oracle's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// Weights and activations in bf16.
    Bf16,
    /// Some weights in FP8 or NVFP4, activations in bf16.
    WeightOnly,
    /// Some activations, or the KV cache, rounded to FP8 or NVFP4 too.
    Quantised,
}

impl Precision {
    /// Of a checkpoint whose activations are treated as `activations` says.
    pub fn of(weights: &Weights, activations: Activations) -> Self {
        let linears = weights.linears();
        let rounds = |weight: &Weight| match weight {
            Weight::Bf16 { .. } => false,
            Weight::Fp8 { input_scale, weight_scale, .. } => {
                input_scale.is_some() || matches!(weight_scale, crate::weights::Fp8Scale::PerRow(_))
            }
            Weight::Nvfp4 { input_scale, .. } => input_scale.is_some(),
        };
        let any_rounds = weights.config.kv_cache_fp8 || linears.iter().any(|(_, l)| rounds(&l.weight));
        if activations == Activations::Checkpoint && any_rounds {
            Precision::Quantised
        } else if linears.iter().all(|(_, l)| matches!(l.weight, Weight::Bf16 { .. })) {
            Precision::Bf16
        } else {
            Precision::WeightOnly
        }
    }

    /// Margin in nats under which rounding may decide: 0.02, 0.05 and 0.5.
    pub fn noise_floor(self) -> f32 {
        match self {
            Precision::Bf16 => 0.02,
            Precision::WeightOnly => 0.05,
            Precision::Quantised => 0.5,
        }
    }
}

/// How rows are compared.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Oracle margins under this many nats are near ties.
    pub noise_floor: f32,
    /// Feeds the oracle's token behind a difference and goes on, else the row ends there.
    pub teacher_forced: bool,
    /// Most tokens of a row to compare.
    pub max_tokens: usize,
}

/// A token of ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// The token.
    pub id: u32,
    /// How far our runner-up was behind, in nats.
    pub margin: Option<f32>,
}

/// Where a row differs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Place in the answer, from 0.
    pub position: usize,
    /// Our token.
    pub got: u32,
    /// The oracle's.
    pub expected: u32,
    /// The oracle's runner-up, if the golden tells.
    pub second: Option<u32>,
    /// How far our runner-up was behind, in nats.
    pub margin: Option<f32>,
    /// How far the oracle's was, if the golden tells.
    pub oracle_margin: Option<f32>,
    /// Whether the oracle's margin is under the noise floor.
    pub near_tie: bool,
}

/// What a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Verdict {
    /// Every token is the oracle's.
    StrictPass,
    /// It differs only where the oracle's margin is under the noise floor.
    NearTie,
    /// It differs where the oracle was sure.
    Divergence,
    /// The run gave fewer tokens than the golden holds, or the golden holds none.
    Short,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Verdict::StrictPass => "STRICT PASS",
            Verdict::NearTie => "NEAR TIE",
            Verdict::Divergence => "DIVERGENCE",
            Verdict::Short => "SHORT",
        })
    }
}

/// What to do with the row next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Go on with our own token, which is the oracle's.
    Continue,
    /// Go on with this token instead of ours.
    Feed(u32),
    /// The row is done.
    Stop,
}

/// A row while it is compared.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    row: &'a Row,
    rules: Rules,
    stopped: bool,
    report: RowReport,
}

/// What was found in a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowReport {
    /// Index of the prompt in the golden.
    pub prompt: usize,
    /// Tokens that should be compared.
    pub expected: usize,
    /// Tokens that were.
    pub compared: usize,
    /// Tokens that are equal.
    pub matched: usize,
    /// Where it differs; with teacher forcing perhaps more than once.
    pub differences: Vec<Difference>,
    /// The verdict.
    pub verdict: Verdict,
}

impl<'a> Comparison<'a> {
    /// Begins row `prompt` of a golden.
    pub fn new(prompt: usize, row: &'a Row, rules: Rules) -> Self {
        let expected = row.ids.len().min(rules.max_tokens);
        let (differences, verdict) = (Vec::new(), Verdict::Short);
        let report = RowReport { prompt, expected, compared: 0, matched: 0, differences, verdict };
        Comparison { row, rules, stopped: false, report }
    }

    /// How many tokens are to be produced.
    pub fn expected(&self) -> usize {
        self.report.expected
    }

    /// Takes our next token; those behind the end of the row are not looked at.
    pub fn push(&mut self, answer: Answer) -> Next {
        let position = self.report.compared;
        if self.stopped || position >= self.report.expected {
            return Next::Stop;
        }
        let expected = self.row.ids[position];
        self.report.compared += 1;
        let last = self.report.compared == self.report.expected;
        if answer.id == expected {
            self.report.matched += 1;
            return if last { Next::Stop } else { Next::Continue };
        }
        let oracle_margin = self.row.margin_nats.get(position).copied();
        self.report.differences.push(Difference {
            position,
            got: answer.id,
            expected,
            second: self.row.second.get(position).copied(),
            margin: answer.margin,
            oracle_margin,
            near_tie: oracle_margin.is_some_and(|margin| margin < self.rules.noise_floor),
        });
        self.stopped = !self.rules.teacher_forced;
        if self.stopped || last { Next::Stop } else { Next::Feed(expected) }
    }

    /// Ends the row.
    pub fn finish(mut self) -> RowReport {
        let report = &mut self.report;
        let incomplete = report.compared < report.expected && !self.stopped;
        report.verdict = if report.differences.iter().any(|d| !d.near_tie) {
            Verdict::Divergence
        } else if incomplete || report.compared == 0 {
            Verdict::Short
        } else if report.differences.is_empty() {
            Verdict::StrictPass
        } else {
            Verdict::NearTie
        };
        self.report
    }
}

/// Sums over rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Rows.
    pub rows: usize,
    /// Rows of which at least one token was compared.
    pub rows_compared: usize,
    /// Rows that are [`Verdict::StrictPass`].
    pub strict_pass: usize,
    /// Rows that are [`Verdict::NearTie`].
    pub near_tie: usize,
    /// Rows that are [`Verdict::Divergence`].
    pub divergence: usize,
    /// Rows that are [`Verdict::Short`].
    pub short: usize,
    /// Tokens compared.
    pub compared: usize,
    /// Tokens equal.
    pub matched: usize,
}

impl Totals {
    /// Of some rows.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a RowReport>) -> Self {
        let mut totals = Totals::default();
        for row in rows {
            totals.rows += 1;
            totals.rows_compared += usize::from(row.compared > 0);
            totals.compared += row.compared;
            totals.matched += row.matched;
            *match row.verdict {
                Verdict::StrictPass => &mut totals.strict_pass,
                Verdict::NearTie => &mut totals.near_tie,
                Verdict::Divergence => &mut totals.divergence,
                Verdict::Short => &mut totals.short,
            } += 1;
        }
        totals
    }

    /// 1 after a divergence (with `strict`, after a near tie too), 3 if no token was compared, 4 after a short
    /// row, else 0. What is said first here wins.
    pub fn exit_code(&self, strict: bool) -> u8 {
        if self.divergence > 0 || (strict && self.near_tie > 0) {
            1
        } else if self.compared == 0 {
            3
        } else if self.short > 0 {
            4
        } else {
            0
        }
    }
}
