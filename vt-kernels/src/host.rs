//! The host's widest vectors, for loops of references. No bit depends on them.

/// Runs `f` compiled for the host's instruction set; `f` and what it calls must be `#[inline(always)]`. The bound makes a
/// closure `FnOnce` itself: another one reaches pulp through a shim that is not inlined, and its `mul_add` becomes a call.
#[inline(always)]
pub(crate) fn dispatch<R>(f: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(f)
}
