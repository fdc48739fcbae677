//! Runs golden rows on an engine.

use super::{Answer, Comparison, Next, RowReport, Rules};
use crate::backend::Backend;
use crate::engine::{Engine, Request, Token};
use crate::error::{Error, Result};
use crate::golden::Row;

/// Compares step by step: each prompt is computed once and each token continues from the state. Rows run in
/// one batch, or one after the other if `alone`. `progress` is told each token. A row that does not fit the
/// engine's KV pages is cut, and so short.
pub fn decode<B: Backend>(
    engine: &mut Engine<B>,
    rows: &[Row],
    rules: Rules,
    alone: bool,
    progress: &mut dyn FnMut(),
) -> Result<Vec<RowReport>> {
    check(engine, rows, rules)?;
    let mut comparisons = begin(rows, rules);
    let batches: Vec<_> = if alone {
        (0..rows.len()).map(|i| i..i + 1).collect()
    } else {
        std::iter::once(0..rows.len()).collect()
    };
    for batch in batches {
        let mut running = Vec::new();
        for i in batch {
            let fits = (room(engine) + 1).saturating_sub(rows[i].prompt_ids.len());
            let max_tokens = comparisons[i].expected().min(fits);
            if max_tokens > 0 {
                let prompt = rows[i].prompt_ids.clone();
                running.push((engine.add(Request { top_n: 2, ..Request::greedy(prompt, max_tokens) })?, i));
            }
        }
        while !engine.is_idle() {
            for token in engine.step()? {
                let Some(&(_, i)) = running.iter().find(|(request, _)| *request == token.request) else {
                    continue;
                };
                progress();
                let next = comparisons[i].push(answer(&token));
                match next {
                    _ if token.finish.is_some() => {}
                    Next::Continue => {}
                    Next::Feed(id) => engine.force(token.request, id)?,
                    Next::Stop => engine.remove(token.request)?,
                }
            }
        }
    }
    Ok(comparisons.into_iter().map(Comparison::finish).collect())
}

/// Compares by fresh prefill: for each token the prompt and the tokens before it are computed anew, so no
/// state is carried from step to step. Arguments as for [`decode`].
pub fn prefill<B: Backend>(
    engine: &mut Engine<B>,
    rows: &[Row],
    rules: Rules,
    alone: bool,
    progress: &mut dyn FnMut(),
) -> Result<Vec<RowReport>> {
    check(engine, rows, rules)?;
    let mut comparisons = begin(rows, rules);
    let mut prompts: Vec<_> = rows.iter().map(|row| Some(row.prompt_ids.clone())).collect();
    for (prompt, comparison) in prompts.iter_mut().zip(&comparisons) {
        *prompt = prompt.take().filter(|_| comparison.expected() > 0);
    }
    loop {
        let mut running = Vec::new();
        for (i, prompt) in prompts.iter_mut().enumerate() {
            if alone && !running.is_empty() {
                break;
            }
            prompt.take_if(|ids| ids.len() > room(engine));
            if let Some(ids) = prompt {
                running.push((engine.add(Request { top_n: 2, ..Request::greedy(ids.clone(), 1) })?, i));
            }
        }
        if running.is_empty() {
            break;
        }
        for token in engine.tokens().collect::<Result<Vec<_>>>()? {
            let Some(&(_, i)) = running.iter().find(|(request, _)| *request == token.request) else {
                continue;
            };
            progress();
            match (comparisons[i].push(answer(&token)), &mut prompts[i]) {
                (Next::Continue, Some(ids)) => ids.push(token.id),
                (Next::Feed(id), Some(ids)) => ids.push(id),
                (_, prompt) => *prompt = None,
            }
        }
    }
    Ok(comparisons.into_iter().map(Comparison::finish).collect())
}

fn begin(rows: &[Row], rules: Rules) -> Vec<Comparison<'_>> {
    rows.iter().enumerate().map(|(i, row)| Comparison::new(i, row, rules)).collect()
}

/// Tokens that fit the KV pages of one sequence.
fn room<B: Backend>(engine: &Engine<B>) -> usize {
    engine.config().kv_blocks.saturating_mul(engine.config().block_size)
}

fn check<B: Backend>(engine: &Engine<B>, rows: &[Row], rules: Rules) -> Result<()> {
    let vocab_size = engine.model().config().vocab_size;
    for (i, row) in rows.iter().enumerate() {
        let ids = row.prompt_ids.iter().chain(row.ids.iter().take(rules.max_tokens));
        if let Some(id) = ids.into_iter().find(|&&id| id as usize >= vocab_size) {
            return Err(Error::Request(format!("golden: prompt {i}: id {id}, expected below {vocab_size}")));
        }
    }
    Ok(())
}

fn answer(token: &Token) -> Answer {
    let margin = match token.top[..] {
        [(_, first), (_, second), ..] => Some(first - second).filter(|margin| margin.is_finite()),
        _ => None,
    };
    Answer { id: token.id, margin }
}
