//! The selective state space of Mamba2: the scan over a sequence in chunks, and its single step.

use crate::{Error, Result, Rows, checks};

pub mod chunk_scan;
pub mod state_update;

/// Sizes of a layer.
#[derive(Clone, Copy)]
struct Sizes {
    n_heads: usize,
    head_dim: usize,
    n_groups: usize,
    d_state: usize,
}

/// What both kernels read of their tokens.
#[allow(non_snake_case)]
struct Tokens<'a, T> {
    x: Rows<'a, T>,
    dt: Rows<'a, T>,
    A: &'a [f32],
    B: Rows<'a, T>,
    C: Rows<'a, T>,
    D: Option<&'a [f32]>,
    z: Option<Rows<'a, T>>,
    dt_bias: Option<&'a [f32]>,
}

impl<T> Tokens<'_, T> {
    /// Checks the shapes; `rows` is the name of the first dimension.
    fn check(&self, sizes: Sizes, rows: &str) -> Result<()> {
        let Sizes { n_heads, head_dim, n_groups, d_state } = sizes;
        let tokens = self.x.rows();
        let inner = format!("[{rows}, n_heads * head_dim]");
        let groups = format!("[{rows}, n_groups * d_state]");
        self.x.expect("x", tokens, n_heads * head_dim, &inner)?;
        self.dt.expect("dt", tokens, n_heads, &format!("[{rows}, n_heads]"))?;
        checks::per("A", self.A, n_heads, "n_heads")?;
        self.B.expect("B", tokens, n_groups * d_state, &groups)?;
        self.C.expect("C", tokens, n_groups * d_state, &groups)?;
        if let Some(d) = self.D {
            checks::per("D", d, n_heads, "n_heads")?;
        }
        if let Some(z) = &self.z {
            z.expect("z", tokens, n_heads * head_dim, &inner)?;
        }
        if let Some(dt_bias) = self.dt_bias {
            checks::per("dt_bias", dt_bias, n_heads, "n_heads")?;
        }
        Ok(())
    }
}

/// Sizes that both kernels check.
fn check_shape(sizes: Sizes) -> Result<()> {
    let Sizes { n_heads, head_dim, n_groups, d_state } = sizes;
    for (arg, got) in [("n_heads", n_heads), ("head_dim", head_dim), ("d_state", d_state)] {
        if got == 0 {
            return Err(Error::value(arg, got, "at least 1"));
        }
    }
    if n_groups == 0 || !n_heads.is_multiple_of(n_groups) {
        return Err(Error::value("n_groups", n_groups, format!("a divisor of n_heads = {n_heads}")));
    }
    let sizes = [n_heads, head_dim, d_state].iter().try_fold(1usize, |product, &n| product.checked_mul(n));
    sizes.map(|_| ()).ok_or_else(|| Error::value("n_heads", n_heads, "a size that fits memory"))
}

fn check_dt_limit(dt_limit: (f32, f32)) -> Result<()> {
    if dt_limit.0 <= dt_limit.1 {
        return Ok(());
    }
    Err(Error::value("dt_limit", format!("{dt_limit:?}"), "a lower and an upper bound"))
}

/// Step size of one head: `clamp(softplus(dt + bias))`, each step optional.
#[inline(always)]
fn step_size(dt: f32, bias: Option<f32>, softplus: bool, limit: (f32, f32)) -> f32 {
    let dt = bias.map_or(dt, |bias| dt + bias);
    let dt = if softplus { crate::math::softplus(dt) } else { dt };
    dt.clamp(limit.0, limit.1)
}
