//! Pools of KV pages and recurrent slots.

/// Numbers `0..n`, each free or taken. The lowest free number is taken first, so a run is reproducible.
#[derive(Debug)]
pub(super) struct Pool {
    free: std::collections::BTreeSet<u32>,
}

impl Pool {
    pub(super) fn new(n: usize) -> Self {
        Pool { free: (0..n as u32).collect() }
    }

    pub(super) fn available(&self) -> usize {
        self.free.len()
    }

    /// Takes `n`, or none if fewer are free.
    pub(super) fn take(&mut self, n: usize) -> Option<Vec<u32>> {
        if n > self.free.len() {
            return None;
        }
        Some((0..n).filter_map(|_| self.free.pop_first()).collect())
    }

    pub(super) fn give(&mut self, numbers: &[u32]) {
        for &number in numbers {
            let fresh = self.free.insert(number);
            debug_assert!(fresh, "{number} was free already");
        }
    }
}
