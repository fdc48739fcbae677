//! Weights: what is in the file is what is in memory, in every precision and layout; everything else is refused.

use half::bf16;
use safetensors::Dtype;
use serde_json::json;
use vt_model::weights::{Fp8Scale, Linear, Mixer, Param, Weight, Weights};

use crate::support::checkpoint::{Precision, Synthetic, tiny};
use crate::support::oracle::{oracle_dir, root};

const ALL: [Precision; 4] = [Precision::Bf16, Precision::Fp8, Precision::Nvfp4, Precision::Mixed];

fn load(synthetic: &Synthetic) -> Result<Weights, String> {
    let dir = tempfile::tempdir().unwrap();
    synthetic.write(dir.path());
    Weights::load(dir.path(), &|_, _| ()).map_err(|e| e.to_string())
}

/// Loads what `change` made of a checkpoint, and wants an error with every one of `words`.
#[track_caller]
fn refused(precision: Precision, change: impl Fn(&mut Synthetic), words: &[&str]) {
    let mut synthetic = Synthetic::new(tiny(), precision);
    change(&mut synthetic);
    let error = load(&synthetic).expect_err("an error");
    for word in words {
        assert!(error.contains(word), "{error}: no {word}");
    }
}

fn stored_bf16(synthetic: &Synthetic, name: &str) -> Vec<bf16> {
    let bytes = synthetic.tensors[name].data.chunks_exact(2);
    bytes.map(|b| bf16::from_le_bytes([b[0], b[1]])).collect()
}

mod round_trip {
    use super::*;

    /// Bytes of a weight as stored.
    fn bytes(linear: &Linear) -> Vec<u8> {
        match &linear.weight {
            Weight::Bf16 { data, .. } => bytemuck::cast_slice(data).to_vec(),
            Weight::Fp8 { data, .. } => bytemuck::cast_slice(data).to_vec(),
            Weight::Nvfp4 { weight, .. } => {
                (0..weight.rows()).flat_map(|i| weight.view().packed_row(i).to_vec()).collect()
            }
        }
    }

    #[test]
    fn every_precision() {
        for precision in ALL {
            let synthetic = Synthetic::new(tiny(), precision);
            let weights = load(&synthetic).unwrap();
            let linears = weights.linears();
            assert_eq!(linears.len(), 2 * 2 + 4 + 2 + 2 * (2 * 4 + 2) + 1);
            for (name, linear) in linears {
                let full = if name == "lm_head" { name.clone() } else { format!("backbone.{name}") };
                let stored = &synthetic.tensors[&format!("{full}.weight")];
                assert_eq!(bytes(linear), stored.data, "{precision:?} {name}");
                assert_eq!(linear.out_features(), stored.shape[0]);
            }
            let Param::Bf16 { data, rows: 48, cols: 32 } = &weights.embeddings else { panic!() };
            assert_eq!(data, &stored_bf16(&synthetic, "backbone.embeddings.weight"));
            assert!(weights.unused.is_empty());
            let Mixer::Mamba(mamba) = &weights.layers[0].mixer else { panic!() };
            let a_log = stored_bf16(&synthetic, "backbone.layers.0.mixer.A_log");
            let exact = a_log.iter().map(|x| -f64::from(x.to_f32()).exp());
            let close = mamba.a.to_f32().iter().zip(exact).all(|(got, x)| (f64::from(*got) - x).abs() < 1e-6);
            assert!(close && (mamba.conv_weight.rows(), mamba.conv_weight.cols()) == (96, 4));
        }
    }

    #[test]
    fn scales_stay_with_their_tensor() {
        let mut synthetic = Synthetic::new(tiny(), Precision::Mixed);
        for e in 0..4 {
            let name = format!("backbone.layers.1.mixer.experts.{e}.up_proj.weight_scale_2");
            synthetic.scale(&name, 0.125 * (e + 1) as f32);
        }
        let weights = load(&synthetic).unwrap();
        let Mixer::Moe(moe) = &weights.layers[1].mixer else { panic!() };
        for (e, expert) in moe.experts.iter().enumerate() {
            let Weight::Nvfp4 { weight, input_scale: None } = &expert.up.weight else { panic!() };
            assert_eq!(weight.global_scale(), 0.125 * (e + 1) as f32);
        }
        let Mixer::Mamba(mamba) = &weights.layers[0].mixer else { panic!() };
        let Weight::Fp8 { weight_scale, input_scale, .. } = &mamba.in_proj.weight else { panic!() };
        assert_eq!((weight_scale, input_scale), (&Fp8Scale::PerTensor(0.5), &Some(0.25)));
        let Mixer::Attention(attention) = &weights.layers[3].mixer else { panic!() };
        assert_eq!((attention.k_scale, attention.v_scale), (Some(0.75), Some(0.875)));
        assert!(weights.config.kv_cache_fp8);
    }

    #[test]
    fn fp8_by_row() {
        let mut synthetic = Synthetic::new(tiny(), Precision::Fp8);
        let name = "backbone.layers.4.mixer.up_proj";
        let scales: Vec<f32> = (0..64).map(|i| 1.0 + i as f32).collect();
        let bytes = scales.iter().flat_map(|s| s.to_le_bytes()).collect();
        synthetic.put(&format!("{name}.weight_scale"), Dtype::F32, &[64, 1], bytes);
        synthetic.tensors.remove(&format!("{name}.input_scale"));
        let weights = load(&synthetic).unwrap();
        let Mixer::Mlp(mlp) = &weights.layers[4].mixer else { panic!() };
        let Weight::Fp8 { weight_scale, input_scale: None, .. } = &mlp.up.weight else { panic!() };
        assert_eq!(weight_scale, &Fp8Scale::PerRow(scales));
    }

    #[test]
    fn latent_experts() {
        let mut config = tiny();
        config["moe_latent_size"] = json!(16);
        for precision in ALL {
            let weights = load(&Synthetic::new(config.clone(), precision)).unwrap();
            let Mixer::Moe(moe) = &weights.layers[1].mixer else { panic!() };
            let latent = moe.latent.as_ref().unwrap();
            assert_eq!((latent.down.out_features(), latent.up.out_features()), (16, 32));
            assert_eq!(moe.experts[3].up.in_features(), 16);
        }
    }
}

mod layouts {
    use super::*;

    fn same(a: &Weights, b: &Weights) {
        for ((name, a), (_, b)) in a.linears().iter().zip(b.linears()) {
            assert_eq!(*a, b, "{name}");
        }
    }

    #[test]
    fn sharded_is_single() {
        let synthetic = Synthetic::new(tiny(), Precision::Mixed);
        let dir = tempfile::tempdir().unwrap();
        synthetic.write_sharded(dir.path(), 3);
        same(&Weights::load(dir.path(), &|_, _| ()).unwrap(), &load(&synthetic).unwrap());
    }

    #[test]
    fn names_of_transformers_5_with_fused_experts() {
        let synthetic = Synthetic::new(tiny(), Precision::Bf16);
        let mut renamed = synthetic.clone();
        renamed.tensors.clear();
        for (name, tensor) in &synthetic.tensors {
            let name = name.replace("backbone.", "model.").replace("norm_f", "norm");
            let name = name.replace("model.embeddings", "model.embed_tokens");
            match name.split_once(".experts.") {
                None => drop(renamed.tensors.insert(name, tensor.clone())),
                Some((mixer, rest)) => {
                    let which = rest.split('.').nth(1).unwrap();
                    let fused = renamed.tensors.entry(format!("{mixer}.experts.{which}"));
                    let fused = fused.or_insert_with(|| {
                        let mut empty = tensor.clone();
                        empty.shape.insert(0, 0);
                        empty.data.clear();
                        empty
                    });
                    fused.shape[0] += 1;
                    fused.data.extend(&tensor.data);
                }
            }
        }
        same(&load(&renamed).unwrap(), &load(&synthetic).unwrap());
    }

    #[test]
    fn tied_embeddings() {
        let mut synthetic = Synthetic::new(tiny(), Precision::Bf16);
        synthetic.config["tie_word_embeddings"] = json!(true);
        let stored = load(&synthetic).unwrap();
        synthetic.tensors.remove("lm_head.weight");
        let absent = load(&synthetic).unwrap();
        let Weight::Bf16 { data, .. } = &absent.lm_head.weight else { panic!() };
        assert_eq!(data, &stored_bf16(&synthetic, "backbone.embeddings.weight"));
        assert_eq!(stored.lm_head, absent.lm_head);
        synthetic.put("lm_head.weight", Dtype::BF16, &[48, 32], vec![0; 48 * 32 * 2]);
        assert!(load(&synthetic).unwrap_err().contains("tie_word_embeddings"));
    }

    #[test]
    fn prediction_layers_are_reported() {
        let mut synthetic = Synthetic::new(tiny(), Precision::Bf16);
        synthetic.floats("mtp.layers.0.eh_proj.weight", &[32, 64]);
        assert_eq!(load(&synthetic).unwrap().unused, ["mtp.layers.0.eh_proj.weight"]);
    }

    #[test]
    fn f32_where_bf16_holds_it() {
        let name = "backbone.layers.4.mixer.up_proj.weight";
        let synthetic = Synthetic::new(tiny(), Precision::Bf16);
        let exact: Vec<f32> = stored_bf16(&synthetic, name).iter().map(|x| x.to_f32()).collect();
        let mut wide = synthetic.clone();
        wide.put(name, Dtype::F32, &[64, 32], bytemuck::cast_slice(&exact).to_vec());
        same(&load(&wide).unwrap(), &load(&synthetic).unwrap());
        let inexact: Vec<f32> = exact.iter().map(|x| x + 1e-6).collect();
        wide.put(name, Dtype::F32, &[64, 32], bytemuck::cast_slice(&inexact).to_vec());
        assert!(load(&wide).unwrap_err().contains(name));
    }

    #[test]
    fn progress_ends_at_the_total() {
        let dir = tempfile::tempdir().unwrap();
        let mut synthetic = Synthetic::new(tiny(), Precision::Mixed);
        synthetic.floats("mtp.norm.weight", &[32]);
        synthetic.write(dir.path());
        let seen = std::sync::Mutex::new((0, 0));
        Weights::load(dir.path(), &|done, total| {
            let mut seen = seen.lock().unwrap();
            *seen = (seen.0.max(done), total);
        })
        .unwrap();
        let (done, total) = *seen.lock().unwrap();
        assert!(done == total && total > 0, "{done} of {total}");
    }
}

mod errors {
    use super::*;

    const EXPERT: &str = "backbone.layers.1.mixer.experts.2.down_proj";

    #[test]
    fn missing() {
        for name in Synthetic::new(tiny(), Precision::Mixed).tensors.keys() {
            if name.ends_with("k_scale") || name.ends_with("v_scale") {
                continue;
            }
            refused(
                Precision::Mixed,
                |s| drop(s.tensors.remove(name)),
                &[name, "missing", "model.safetensors"],
            );
        }
        let name = format!("{EXPERT}.input_scale");
        refused(Precision::Nvfp4, |s| drop(s.tensors.remove(&name)), &[&name, "missing"]);
        let name = "backbone.layers.0.mixer.in_proj.weight_scale";
        refused(Precision::Fp8, |s| drop(s.tensors.remove(name)), &[name, "missing"]);
    }

    #[test]
    fn surplus() {
        let name = "backbone.layers.6.norm.weight";
        let words = [name, "surplus", "model.safetensors"];
        refused(Precision::Bf16, |s| s.floats(name, &[32]), &words);
        let scale = format!("{EXPERT}.weight_scale");
        refused(Precision::Bf16, |s| s.scale(&scale, 1.0), &[&scale, "surplus"]);
    }

    #[test]
    fn misshapen_and_mistyped() {
        for precision in ALL {
            for name in Synthetic::new(tiny(), precision).tensors.keys() {
                let reshape = |s: &mut Synthetic| {
                    let tensor = s.tensors.get_mut(name).unwrap();
                    tensor.shape.push(2);
                    tensor.data.extend(tensor.data.clone());
                };
                refused(precision, reshape, &[name, "model.safetensors", "shape"]);
                let retype = |s: &mut Synthetic| {
                    let tensor = s.tensors.get_mut(name).unwrap();
                    tensor.data = vec![0; tensor.shape.iter().product::<usize>() * 8];
                    tensor.dtype = Dtype::I64;
                };
                refused(precision, retype, &[name, "model.safetensors", "type I64"]);
            }
        }
    }

    #[test]
    fn scales_that_are_no_scales() {
        for (precision, suffix) in [
            (Precision::Nvfp4, "weight_scale_2"),
            (Precision::Nvfp4, "input_scale"),
            (Precision::Fp8, "weight_scale"),
            (Precision::Fp8, "input_scale"),
        ] {
            let name = format!("{EXPERT}.{suffix}");
            for value in [f32::NAN, f32::INFINITY, -1.0] {
                refused(precision, |s| s.scale(&name, value), &[&name, "finite number"]);
            }
        }
        for name in ["backbone.layers.3.mixer.k_proj.k_scale", "backbone.layers.3.mixer.v_proj.v_scale"] {
            refused(Precision::Mixed, |s| s.scale(name, 0.0), &[name, "above 0"]);
        }
        let name = format!("{EXPERT}.weight_scale");
        for code in [0x7f, 0x80, 0xff] {
            let poke = |s: &mut Synthetic| s.tensors.get_mut(&name).unwrap().data[3] = code;
            refused(Precision::Nvfp4, poke, &[&name, "code"]);
        }
    }

    #[test]
    fn a_nan_in_the_router_bias() {
        let name = "backbone.layers.1.mixer.gate.e_score_correction_bias";
        let poke = |s: &mut Synthetic| {
            s.tensors.get_mut(name).unwrap().data[..4].copy_from_slice(&f32::NAN.to_le_bytes());
        };
        refused(Precision::Bf16, poke, &[name, "NaN"]);
    }

    #[test]
    fn an_a_that_overflows() {
        let name = "backbone.layers.0.mixer.A_log";
        let poke = |s: &mut Synthetic| s.tensors.get_mut(name).unwrap().data[..2].copy_from_slice(&[0, 0x43]);
        refused(Precision::Bf16, poke, &[name, "finite"]);
    }

    #[test]
    fn sizes_beyond_the_file_allocate_nothing() {
        let most = 1 << 20;
        for field in
            ["hidden_size", "vocab_size", "n_routed_experts", "moe_intermediate_size", "mamba_num_heads"]
        {
            refused(Precision::Mixed, |s| s.config[field] = json!(most), &["expected", "tensor"]);
        }
        let layers = "MEE*-".repeat(800);
        refused(Precision::Bf16, |s| s.config["hybrid_override_pattern"] = json!(layers), &["tensor"]);
    }

    #[test]
    fn a_tensor_missing_from_shards_names_the_index() {
        let dir = tempfile::tempdir().unwrap();
        let mut synthetic = Synthetic::new(tiny(), Precision::Bf16);
        synthetic.tensors.remove("backbone.norm_f.weight");
        synthetic.write_sharded(dir.path(), 2);
        let error = Weights::load(dir.path(), &|_, _| ()).unwrap_err().to_string();
        assert!(error.contains("index.json: tensor backbone.norm_f.weight: missing"), "{error}");
    }

    #[test]
    fn quantised_without_a_rule() {
        let forget = |s: &mut Synthetic| s.hf_quant = None;
        refused(Precision::Fp8, forget, &["type F8_E4M3", "no rule"]);
        refused(Precision::Nvfp4, forget, &["type U8", "no rule"]);
    }
}

mod vs_modelopt {
    use super::*;

    #[test]
    fn the_embedded_model_loads() {
        let weights = Weights::load(&root().join("tests/data/lightning"), &|_, _| ()).unwrap();
        assert_eq!((weights.layers.len(), weights.config.vocab_size), (10, 512));
        assert!(matches!(&weights.lm_head.weight, Weight::Nvfp4 { input_scale: None, .. }));
    }

    #[test]
    fn every_oracle_loads() {
        let Some(dir) = oracle_dir("every_oracle_loads") else { return };
        for name in ["bf16", "fp8", "nvfp4", "lightning", "latent"] {
            let weights = Weights::load(&dir.join(name), &|_, _| ()).unwrap_or_else(|e| panic!("{e}"));
            assert!(weights.unused.is_empty());
        }
    }
}
