//! Two engines in lock step.

use super::{Comparer, Report, Side};
use crate::backend::Backend;
use crate::engine::{Engine, Request};
use crate::error::{Error, Result};
use crate::trace::Record;

/// Runs `requests` on two fresh engines; the right one is fed the left one's tokens, so that a difference does
/// not hide behind another text. The left run keeps just ahead, so that little is held. `progress` is told each
/// token of the right run.
///
/// Stop ids are left out: each request gives `max_tokens` tokens.
pub fn lock_step<L: Backend, R: Backend>(
    left: &mut Engine<L>,
    right: &mut Engine<R>,
    requests: &[Request],
    progress: &mut dyn FnMut(),
) -> Result<Report> {
    for (i, request) in requests.iter().enumerate() {
        let request = Request { stop: Vec::new(), ..request.clone() };
        let ids = [left.add(request.clone())?, right.add(request)?];
        if ids != [i as u64; 2] {
            return Err(Error::Request(
                "compare: an engine has had requests before, expected fresh ones".into(),
            ));
        }
    }
    let mut comparer = Comparer::default();
    let mut tokens = vec![Vec::new(); requests.len()];
    let mut fed = vec![0; requests.len()];
    loop {
        let waits = (0..requests.len()).any(|i| fed[i] < requests[i].max_tokens && tokens[i].len() <= fed[i]);
        if waits && !left.is_idle() {
            let mut record = Record::default();
            for token in left.step_traced(&mut record)? {
                tokens[token.request as usize].push(token.id);
            }
            comparer.take(Side::Left, record);
        } else if !right.is_idle() {
            let mut record = Record::default();
            for token in right.step_traced(&mut record)? {
                let i = token.request as usize;
                let Some(&expected) = tokens[i].get(token.index) else { continue };
                comparer.token(expected, token.id);
                fed[i] += 1;
                progress();
                if token.id != expected && token.finish.is_none() {
                    right.force(token.request, expected)?;
                }
            }
            comparer.take(Side::Right, record);
        } else {
            return Ok(comparer.report());
        }
    }
}
