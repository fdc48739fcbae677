//! Every bench of vt; ids are `<family>/<kernel>/<shape>`.

mod attention;
mod conv1d;
mod embedding;
mod gemm;
mod mamba2;
mod marlin;
mod mma;
mod model;
mod moe;
mod norm;
mod quant;
mod sampling;
mod support;

fn main() {
    let mut c = criterion::Criterion::default().configure_from_args();
    attention::benches(&mut c);
    conv1d::benches(&mut c);
    embedding::benches(&mut c);
    gemm::benches(&mut c);
    mamba2::benches(&mut c);
    marlin::benches(&mut c);
    mma::benches(&mut c);
    model::benches(&mut c);
    moe::benches(&mut c);
    norm::benches(&mut c);
    quant::benches(&mut c);
    sampling::benches(&mut c);
    c.final_summary();
}
