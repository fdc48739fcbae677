//! Model of the tensor-core MMA instructions, bit for bit.
