//! Checks that several kernels make of their index arguments.

use crate::{Error, Result};

/// Slots are −1 (none) or below `n_slots`, and none is named twice.
pub(crate) fn slots(slots: &[i32], n_slots: usize) -> Result<()> {
    let mut taken = vec![false; n_slots];
    for (i, &slot) in slots.iter().enumerate() {
        if slot == -1 {
            continue;
        }
        let known = usize::try_from(slot).ok().filter(|&slot| slot < n_slots);
        let Some(known) = known else {
            let expected = format!("-1 or below n_slots = {n_slots}");
            return Err(Error::value("slots", format!("{slot} at {i}"), expected));
        };
        if std::mem::replace(&mut taken[known], true) {
            return Err(Error::value("slots", format!("{slot} again at {i}"), "each slot once"));
        }
    }
    Ok(())
}

/// `cu_seqlens` begins at 0, does not descend and ends at `total`; the number of sequences.
pub(crate) fn cu_seqlens(cu_seqlens: &[u32], total: usize) -> Result<usize> {
    let Some((&first, &last)) = cu_seqlens.first().zip(cu_seqlens.last()) else {
        return Err(Error::shape("cu_seqlens", &[0], "[n_seqs + 1]"));
    };
    if first != 0 || last as usize != total {
        let expected = format!("0 to the number of tokens, {total}");
        return Err(Error::value("cu_seqlens", format!("{first} to {last}"), expected));
    }
    match cu_seqlens.windows(2).position(|pair| pair[0] > pair[1]) {
        Some(at) => {
            let got = format!("{} after {} at {}", cu_seqlens[at + 1], cu_seqlens[at], at + 1);
            Err(Error::value("cu_seqlens", got, "ascending values"))
        }
        None => Ok(cu_seqlens.len() - 1),
    }
}

/// A list with one entry for each of `n`.
pub(crate) fn per<T>(arg: &'static str, list: &[T], n: usize, name: &str) -> Result<()> {
    if list.len() == n {
        return Ok(());
    }
    Err(Error::shape(arg, &[list.len()], format!("[{name}] = [{n}]")))
}
