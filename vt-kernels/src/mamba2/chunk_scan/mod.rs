//! The recurrence over sequences packed one after the other, in chunks: state space duality.
//!
//! For each sequence and head, chunk by chunk from the sequence's first token, with `S` the state before the chunk, `i`, `j` tokens
//! of the chunk and `c_i` the sum of `Δ · A` of its tokens up to `i`:
//!
//! ```text
//! Δ_i  = clamp(softplus(dt_i + dt_bias))                c_i = c_(i−1) + Δ_i · A
//! G_ij = ((C_i · B_j) · exp(min(c_i − c_j, 0))) · Δ_j   for j ≤ i
//! y_i  = exp(c_i) · (C_i · S) + Σ_(j ≤ i) G_ij · x_j;   y_i = fma(D, x_i, y_i);   y_i = y_i · silu(z_i)
//! S    = exp(c_last) · S + Σ_i x_i · (B_i · (exp(min(c_last − c_i, 0)) · Δ_i))
//! ```
//!
//! # Order of reduction
//! The four products are tensor-core folds ([`mma::fold`](crate::mma::fold), m16n8k16) over ascending `d_state` (`C·B`,
//! `C·S`) or tokens (`G·x`, `x·B`). `C·B` and `C·S` begin at zero; `G·x` begins at `exp(c_i) · (C_i · S)` and the state's
//! product at `exp(c_last) · S`: the live accumulator. An f32 factor `v` (`G`, `S`, scaled `B`, and inputs that are not
//! bf16) enters as two bf16 terms `hi = round(v)`, `lo = round(v − hi)`, `lo` 0 where `hi` is not finite (above bf16's
//! range it is ∞); each step of 16 along K is issued for hi·hi, then hi·lo, then lo·hi, as far as the factors have a lo. `c_i` is a running sum from the chunk's first token.
//! A token's result reads nothing of later tokens, non-finite ones included.
//!
//! Chunks count from each sequence's own first token, so a sequence gives the same bits in any batch, and in pieces
//! cut at multiples of `chunk_size` with the final state of one as the initial state of the next.
//!
//! # Shapes and layouts
//! [`Inputs`]; `out`: `[total_tokens, n_heads · head_dim]`, strided; `final_states`:
//! `[n_seqs, n_heads · head_dim · d_state]` f32, strided. A sequence without tokens ends with its initial state.
//!
//! # Rounding
//! In f32 but for the folds; a result is rounded once where it is stored, the state never.
//!
//! # Arms
//! sm_90a, sm_121a: modelled.
//!
//! # Source
//! Mamba2 (Dao and Gu, 2024), §6 and listing 1.
//!
//! ```
//! use half::bf16;
//! use vt_kernels::{Arch, Rows, RowsMut, mamba2::chunk_scan};
//! let shape = chunk_scan::Shape {
//!     n_heads: 1, head_dim: 1, n_groups: 1, d_state: 1, chunk_size: 16,
//!     dt_softplus: false, dt_limit: (0.0, f32::INFINITY),
//! };
//! let plan = chunk_scan::Plan::new(Arch::Sm90a, shape)?;
//! let one = [bf16::ONE; 3];
//! let (mut out, mut state) = ([0.0f32; 3], [0.0f32]);
//! let inputs = chunk_scan::Inputs {
//!     x: Rows::new("x", &one, 3, 1)?,
//!     dt: Rows::new("dt", &one, 3, 1)?,
//!     A: &[0.0], // nothing decays: a running count
//!     B: Rows::new("B", &one, 3, 1)?,
//!     C: Rows::new("C", &one, 3, 1)?,
//!     D: None,
//!     z: None,
//!     dt_bias: None,
//!     cu_seqlens: &[0, 3],
//!     initial_states: None,
//!     has_initial: &[false],
//! };
//! let view = &mut RowsMut::new("out", &mut out, 3, 1)?;
//! plan.reference(&inputs, view, &mut RowsMut::new("final_states", &mut state, 1, 1)?)?;
//! assert_eq!((out, state), ([1.0, 2.0, 3.0], [3.0]));
//! # Ok::<(), vt_kernels::Error>(())
//! ```

mod chunk;
mod reference;
mod split;

use super::{Sizes, Tokens};
use crate::{Arch, Element, Error, Result, Rows, RowsMut, Unsupported, arch, checks};

/// Sizes and the rule for `dt`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Heads.
    pub n_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Groups of heads that share `B` and `C`; divides `n_heads`.
    pub n_groups: usize,
    /// Size of the state.
    pub d_state: usize,
    /// Tokens of a chunk: a power of two, 16 to 256.
    pub chunk_size: usize,
    /// Whether softplus is applied to `dt`.
    pub dt_softplus: bool,
    /// Bounds of `dt` after softplus; (0, ∞) does nothing.
    pub dt_limit: (f32, f32),
}

impl Shape {
    fn sizes(&self) -> Sizes {
        let Shape { n_heads, head_dim, n_groups, d_state, .. } = *self;
        Sizes { n_heads, head_dim, n_groups, d_state }
    }
}

/// What is read.
#[allow(non_snake_case)]
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a, T> {
    /// `[total_tokens, n_heads · head_dim]`, strided.
    pub x: Rows<'a, T>,
    /// `[total_tokens, n_heads]`, strided.
    pub dt: Rows<'a, T>,
    /// `[n_heads]`, negative.
    pub A: &'a [f32],
    /// `[total_tokens, n_groups · d_state]`, strided.
    pub B: Rows<'a, T>,
    /// As `B`.
    pub C: Rows<'a, T>,
    /// `[n_heads]`: the skip.
    pub D: Option<&'a [f32]>,
    /// Gate, `[total_tokens, n_heads · head_dim]`, strided.
    pub z: Option<Rows<'a, T>>,
    /// `[n_heads]`.
    pub dt_bias: Option<&'a [f32]>,
    /// Where each sequence begins, and the end, `[n_seqs + 1]`.
    pub cu_seqlens: &'a [u32],
    /// `[n_seqs, n_heads · head_dim · d_state]`, strided.
    pub initial_states: Option<Rows<'a, f32>>,
    /// Whether a sequence begins with its row of `initial_states`, `[n_seqs]`; else with zeros.
    pub has_initial: &'a [bool],
}

/// Whether the architecture has an arm.
pub fn supported(arch: Arch, _shape: &Shape) -> Result<(), Unsupported> {
    arch::simt("mamba2/chunk_scan", arch)
}

/// A checked shape on an architecture.
#[derive(Clone, Debug)]
pub struct Plan {
    arch: Arch,
    shape: Shape,
}

impl Plan {
    /// Checks the shape and that the architecture has an arm.
    pub fn new(arch: Arch, shape: Shape) -> Result<Plan> {
        super::check_shape(shape.sizes())?;
        super::check_dt_limit(shape.dt_limit)?;
        if !shape.chunk_size.is_power_of_two() || !(16..=256).contains(&shape.chunk_size) {
            return Err(Error::value("chunk_size", shape.chunk_size, "a power of two, 16 to 256"));
        }
        supported(arch, &shape)?;
        Ok(Plan { arch, shape })
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Scans on the CPU.
    ///
    /// # Errors
    /// Shapes that do not fit; `has_initial` without `initial_states`. Nothing is written then.
    #[allow(non_snake_case)]
    pub fn reference<T: Element, O: Element>(
        &self,
        inputs: &Inputs<'_, T>,
        out: &mut RowsMut<'_, O>,
        final_states: &mut RowsMut<'_, f32>,
    ) -> Result<()> {
        let Shape { n_heads, head_dim, d_state, .. } = self.shape;
        let (tokens, inner) = (inputs.x.rows(), n_heads * head_dim);
        let Inputs { x, dt, A, B, C, D, z, dt_bias, .. } = *inputs;
        Tokens { x, dt, A, B, C, D, z, dt_bias }.check(self.shape.sizes(), "total_tokens")?;
        let n_seqs = checks::cu_seqlens(inputs.cu_seqlens, tokens)?;
        let names = "[n_seqs, n_heads * head_dim * d_state]";
        if let Some(initial) = &inputs.initial_states {
            initial.expect("initial_states", n_seqs, inner * d_state, names)?;
        }
        checks::per("has_initial", inputs.has_initial, n_seqs, "n_seqs")?;
        if inputs.initial_states.is_none() && inputs.has_initial.contains(&true) {
            return Err(Error::value("initial_states", "none", "a row for each sequence of has_initial"));
        }
        out.expect("out", tokens, inner, "[total_tokens, n_heads * head_dim]")?;
        final_states.expect("final_states", n_seqs, inner * d_state, names)?;
        reference::run(self.arch, &self.shape, inputs, out, final_states)
    }
}
