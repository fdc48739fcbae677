//! Two runs, tensor by tensor: which is the first that differs, and where each layer stands.
//!
//! Rows are paired by layer, operation, request and position, so runs may differ in batch, in how prompts are
//! cut, in chip, in checkpoint. A row that only one run has (a state at a chunk's end) is counted, not compared.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;

use crate::trace::{Entry, Record, RowId, Values};

mod drive;

pub use drive::lock_step;

/// Which run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The run that is compared with.
    Left,
    /// The run that is looked at.
    Right,
}

/// One element of one side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Element {
    /// Its value.
    pub value: f64,
    /// Its bits.
    pub bits: u32,
    /// `bf16`, `f32` or `u32`.
    pub dtype: &'static str,
}

/// The first element that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Layer, if the operation belongs to one.
    pub layer: Option<usize>,
    /// Operation.
    pub operation: &'static str,
    /// Request of the row.
    pub request: u64,
    /// Position of the row's token in its sequence.
    pub position: u32,
    /// Column.
    pub column: usize,
    /// The left run's element.
    pub left: Element,
    /// The right run's.
    pub right: Element,
}

/// What was found in one operation of one layer, over all rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tensor {
    /// Layer, if the operation belongs to one.
    pub layer: Option<usize>,
    /// Operation.
    pub operation: &'static str,
    /// Rows compared.
    pub rows: usize,
    /// Rows with a difference.
    pub rows_differ: usize,
    /// Elements compared.
    pub elements: usize,
    /// Elements that differ.
    pub differ: usize,
    /// Largest distance in units of the last place; differences of ids for integers.
    pub max_ulp: u64,
    /// Columns of the left run and of the right.
    pub cols: (usize, usize),
    /// Rows that only one run has.
    pub unpaired: usize,
}

/// What was found in one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// Layer; `None` is embedding, final norm and logits.
    pub layer: Option<usize>,
    /// Operations compared.
    pub operations: usize,
    /// Elements compared.
    pub elements: usize,
    /// Elements that differ.
    pub differ: usize,
    /// First operation that differs, in order of execution.
    pub first: Option<&'static str>,
    /// Largest distance in units of the last place.
    pub max_ulp: u64,
}

/// What two runs have shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The first difference in the left run's order of execution.
    pub first: Option<Difference>,
    /// Every operation, in order of execution.
    pub tensors: Vec<Tensor>,
    /// Tokens compared.
    pub tokens: usize,
    /// Tokens that differ; the right run was fed the left run's.
    pub tokens_differ: usize,
}

impl Report {
    /// Whether everything compared is equal, bit for bit.
    pub fn equal(&self) -> bool {
        self.tokens_differ == 0 && self.tensors.iter().all(|tensor| tensor.differ == 0)
    }

    /// Sums over the operations of each layer: first what belongs to none, then layers from 0.
    pub fn layers(&self) -> Vec<Layer> {
        let mut layers: Vec<Layer> = Vec::new();
        for tensor in &self.tensors {
            let at = layers.iter().position(|l| l.layer == tensor.layer).unwrap_or_else(|| {
                let (layer, first) = (tensor.layer, None);
                layers.push(Layer { layer, operations: 0, elements: 0, differ: 0, first, max_ulp: 0 });
                layers.len() - 1
            });
            let layer = &mut layers[at];
            layer.operations += usize::from(tensor.rows > 0);
            layer.elements += tensor.elements;
            layer.differ += tensor.differ;
            layer.max_ulp = layer.max_ulp.max(tensor.max_ulp);
            if tensor.differ > 0 {
                layer.first = layer.first.or(Some(tensor.operation));
            }
        }
        layers.sort_by_key(|l| l.layer);
        layers
    }
}

type Place = (Option<usize>, &'static str);

/// A row that waits for the other side.
struct Held {
    side: Side,
    order: Order,
    entry: Arc<Entry>,
    row: usize,
}

/// Place in a run: entries so far, then row.
type Order = (usize, usize);

/// Takes what two runs compute, in any interleaving, and keeps only what has no partner yet.
#[derive(Default)]
pub struct Comparer {
    pending: HashMap<(Place, RowId), Held>,
    tensors: Vec<Tensor>,
    places: HashMap<Place, usize>,
    entries: [usize; 2],
    first: Option<(Order, Difference)>,
    tokens: (usize, usize),
}

impl Comparer {
    /// Takes what one step of a run computed.
    pub fn take(&mut self, side: Side, record: Record) {
        for entry in record.entries {
            let place = (entry.layer, entry.operation);
            let order = self.entries[side as usize];
            self.entries[side as usize] += 1;
            self.places.entry(place).or_insert_with(|| {
                let (layer, operation) = place;
                self.tensors.push(Tensor { layer, operation, ..Tensor::default() });
                self.tensors.len() - 1
            });
            let entry = Arc::new(entry);
            for (row, &id) in entry.rows.clone().iter().enumerate() {
                let mine = Held { side, order: (order, row), entry: entry.clone(), row };
                match self.pending.remove(&(place, id)) {
                    Some(other) if other.side != side => match side {
                        Side::Left => self.pair(place, id, &mine, &other),
                        Side::Right => self.pair(place, id, &other, &mine),
                    },
                    _ => drop(self.pending.insert((place, id), mine)),
                }
            }
        }
    }

    /// Takes a token of both runs.
    pub fn token(&mut self, left: u32, right: u32) {
        self.tokens.0 += 1;
        self.tokens.1 += usize::from(left != right);
    }

    /// What was found. Rows without a partner count as unpaired.
    pub fn report(self) -> Report {
        let Comparer { pending, mut tensors, places, first, tokens, .. } = self;
        for (place, _) in pending.keys() {
            tensors[places[place]].unpaired += 1;
        }
        let first = first.map(|(_, difference)| difference);
        Report { first, tensors, tokens: tokens.0, tokens_differ: tokens.1 }
    }

    fn pair(&mut self, place: Place, id: RowId, left: &Held, right: &Held) {
        let tensor = &mut self.tensors[self.places[&place]];
        let (cols, other) = (left.entry.cols, right.entry.cols);
        tensor.rows += 1;
        tensor.cols = (cols, other);
        tensor.elements += cols.max(other);
        if cols == other && same(left, right) {
            return;
        }
        let pairs = (0..cols.min(other)).map(|c| (c, element(left, c), element(right, c)));
        let mut column = None;
        let mut differ = cols.abs_diff(other);
        for (c, l, r) in pairs.filter(|(_, l, r)| l.bits != r.bits || l.dtype != r.dtype) {
            column = column.or(Some((c, l, r)));
            differ += 1;
            tensor.max_ulp = tensor.max_ulp.max(distance(l, r));
        }
        tensor.rows_differ += usize::from(differ > 0);
        tensor.differ += differ;
        let earlier = self.first.as_ref().is_none_or(|(order, _)| left.order < *order);
        if let Some((column, l, r)) = column.filter(|_| earlier) {
            let (layer, operation) = place;
            let (request, position) = (id.request, id.position);
            let difference = Difference { layer, operation, request, position, column, left: l, right: r };
            self.first = Some((left.order, difference));
        }
    }
}

fn same(left: &Held, right: &Held) -> bool {
    let (a, b) = (bytes(&left.entry.values), bytes(&right.entry.values));
    let width = |values: &Values| if matches!(values, Values::Bf16(_)) { 2 } else { 4 };
    let (n, m) = (left.entry.cols * width(&left.entry.values), right.entry.cols * width(&right.entry.values));
    let same_type = std::mem::discriminant(&left.entry.values) == std::mem::discriminant(&right.entry.values);
    same_type && a[left.row * n..][..n] == b[right.row * m..][..m]
}

fn bytes(values: &Values) -> &[u8] {
    match values {
        Values::Bf16(v) => bytemuck::cast_slice(v),
        Values::F32(v) => bytemuck::cast_slice(v),
        Values::U32(v) => bytemuck::cast_slice(v),
    }
}

fn element(held: &Held, column: usize) -> Element {
    let (values, at) = (&held.entry.values, held.row * held.entry.cols + column);
    let dtype = match values {
        Values::Bf16(_) => "bf16",
        Values::F32(_) => "f32",
        Values::U32(_) => "u32",
    };
    Element { value: values.value(at), bits: values.bits(at), dtype }
}

/// Steps between two numbers of a format; between formats, in f32.
fn distance(left: Element, right: Element) -> u64 {
    let line = |bits: u32, sign: u32| {
        let magnitude = i64::from(bits & (sign - 1));
        if bits & sign != 0 { -magnitude } else { magnitude }
    };
    match (left.dtype, right.dtype) {
        ("u32", "u32") => u64::from(left.bits.abs_diff(right.bits)),
        ("bf16", "bf16") => line(left.bits, 1 << 15).abs_diff(line(right.bits, 1 << 15)),
        _ => {
            let bits = |e: Element| line((e.value as f32).to_bits(), 1 << 31);
            bits(left).abs_diff(bits(right))
        }
    }
}
