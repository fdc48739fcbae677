//! Attention over any page table and lengths: an error, or an answer that reads only pages that exist.
#![no_main]

use half::bf16;
use vt_kernels::attention::flash::{Inputs, Plan, Shape};
use vt_kernels::{Arch, Rows, RowsMut};

const SHAPE: Shape = Shape { n_heads: 2, n_kv_heads: 1, head_dim: 8, block_size: 4, window: None };

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let words: Vec<u32> = bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]).into()).collect();
    let n_seqs = words.first().map_or(0, |n| *n as usize % 4);
    let mut rest = words.into_iter().skip(1);
    let cu_seqlens: Vec<u32> = rest.by_ref().take(n_seqs + 1).collect();
    let seq_lens: Vec<u32> = rest.by_ref().take(n_seqs).collect();
    let mut block_table: Vec<u32> = rest.take(n_seqs * 3).collect();
    block_table.resize(n_seqs * 3, u32::MAX);
    let cache = vec![bf16::ONE; 5 * 4 * 8];
    let q = vec![bf16::ONE; 6 * 16];
    let mut out = vec![bf16::ZERO; 6 * 16];
    let inputs = Inputs {
        q: Rows::new("q", &q, 6, 16).unwrap(),
        k_cache: Rows::new("k_cache", &cache, 20, 8).unwrap(),
        v_cache: Rows::new("v_cache", &cache, 20, 8).unwrap(),
        block_table: Rows::new("block_table", &block_table, n_seqs, 3).unwrap(),
        cu_seqlens: &cu_seqlens,
        seq_lens: &seq_lens,
        softmax_scale: 1.0,
        k_scale: 1.0,
        v_scale: 1.0,
    };
    let plan = Plan::new(Arch::Sm90a, SHAPE).unwrap();
    let _ = plan.reference(&inputs, &mut RowsMut::new("out", &mut out, 6, 16).unwrap());
});
