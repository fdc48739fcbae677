//! Elementary functions made of IEEE f32 operations only.
