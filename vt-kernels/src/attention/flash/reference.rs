//! The definition: which rows see which keys.

use std::ops::Range;

use half::bf16;
use rayon::prelude::*;

use super::rows::{Block, QueryRows};
use super::{Inputs, KV_BLOCK, KV_SPLIT, Shape};
use crate::attention::KvElement;
use crate::math::table::LOG2_E;
use crate::{Arch, Element, Result, RowsMut};

/// Queries that share the gathered keys; no bit depends on it.
const TILE: usize = 32;

/// Some queries of a sequence, all heads of one key head.
struct Task {
    seq: usize,
    kv_head: usize,
    /// Rows of `q`.
    queries: Range<usize>,
    /// Position of the first of them.
    position: usize,
}

pub(super) fn run<KV: KvElement>(
    arch: Arch,
    shape: &Shape,
    inputs: &Inputs<'_, KV>,
    out: &mut RowsMut<'_, bf16>,
) -> Result<()> {
    let mut tasks = Vec::new();
    for (seq, ends) in inputs.cu_seqlens.windows(2).enumerate() {
        let (first, end) = (ends[0] as usize, ends[1] as usize);
        let before = inputs.seq_lens[seq] as usize - (end - first);
        for start in (first..end).step_by(TILE) {
            let (queries, position) = (start..end.min(start + TILE), before + start - first);
            let heads = 0..shape.n_kv_heads;
            tasks.extend(heads.map(|kv_head| Task { seq, kv_head, queries: queries.clone(), position }));
        }
    }
    let done: Result<Vec<Vec<bf16>>> =
        tasks.par_iter().map(|task| attend(arch, shape, inputs, task)).collect();
    let width = shape.n_heads / shape.n_kv_heads * shape.head_dim;
    for (task, rows) in tasks.iter().zip(done?) {
        for (query, row) in task.queries.clone().zip(rows.chunks_exact(width)) {
            out.row_mut(query)[task.kv_head * width..][..width].copy_from_slice(row);
        }
    }
    Ok(())
}

/// Outputs of a task, `[queries, heads of the key head, head_dim]`.
fn attend<KV: KvElement>(
    arch: Arch,
    shape: &Shape,
    inputs: &Inputs<'_, KV>,
    task: &Task,
) -> Result<Vec<bf16>> {
    let (head_dim, group) = (shape.head_dim, shape.n_heads / shape.n_kv_heads);
    let width = group * head_dim;
    let queries = task.queries.clone().flat_map(|i| &inputs.q.row(i)[task.kv_head * width..][..width]);
    let seen = task.queries.clone().flat_map(|i| {
        let position = task.position + i - task.queries.start;
        let first = shape.window.map_or(0, |window| (position + 1).saturating_sub(window));
        std::iter::repeat_n(first..position + 1, group)
    });
    let mut rows = QueryRows::new(arch, head_dim, queries.copied().collect(), seen.collect());
    let scale = inputs.softmax_scale * LOG2_E * inputs.k_scale;
    let keys = task.position + task.queries.len();
    for split in (0..keys).step_by(KV_SPLIT) {
        for start in (split..keys.min(split + KV_SPLIT)).step_by(KV_BLOCK) {
            let positions = start..keys.min(start + KV_BLOCK);
            if rows.see(&positions) {
                rows.fold(&block(shape, inputs, task, positions), scale)?;
            }
        }
        rows.end_split();
    }
    Ok(rows.finish(inputs.v_scale).into_iter().map(Element::from_f32).collect())
}

/// Keys and values of the positions, as bf16, padded with zeros to a whole block.
fn block<KV: KvElement>(
    shape: &Shape,
    inputs: &Inputs<'_, KV>,
    task: &Task,
    positions: Range<usize>,
) -> Block {
    let head_dim = shape.head_dim;
    let columns = task.kv_head * head_dim..(task.kv_head + 1) * head_dim;
    let table = inputs.block_table.row(task.seq);
    let gather = |cache: &crate::Rows<'_, KV>| {
        let mut rows = vec![bf16::ZERO; KV_BLOCK * head_dim];
        for (position, row) in positions.clone().zip(rows.chunks_exact_mut(head_dim)) {
            let page = table[position / shape.block_size] as usize;
            let source = cache.row(page * shape.block_size + position % shape.block_size);
            for (value, stored) in row.iter_mut().zip(&source[columns.clone()]) {
                *value = stored.to_bf16();
            }
        }
        rows
    };
    Block { start: positions.start, k: gather(&inputs.k_cache), v: gather(&inputs.v_cache) }
}
