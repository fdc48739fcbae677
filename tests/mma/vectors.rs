//! The definition against rows of MMA-Sim and of an H200.

use std::collections::BTreeSet;

use super::rows::{device_rows, mismatches, model_rows, text};
use crate::support::oracle::{root, vectors_dir};

mod vs_mmasim {
    use super::*;

    #[test]
    fn sample() {
        let rows = model_rows(&text(&root().join("tests/data/mma_sample.txt")));
        let tags: BTreeSet<&str> = rows.iter().map(|row| row.tag.as_str()).collect();
        assert!(tags.len() >= 136, "{} tags", tags.len());
        mismatches(&rows, |row| row.unit).unwrap();
    }

    #[test]
    fn every_vector() {
        let Some(folder) = vectors_dir("mma::every_vector") else { return };
        let rows = model_rows(&text(&folder.join("mma_model.txt.gz")));
        assert!(rows.len() >= 59_400, "{} rows", rows.len());
        mismatches(&rows, |row| row.unit).unwrap();
    }
}

mod vs_h200 {
    use super::*;

    /// Rows of every `mma.sync` that the chip has, and a negative sum that truncates to zero.
    #[test]
    fn sample() {
        let rows = model_rows(&text(&root().join("tests/data/mma_h200.txt")));
        let tags: BTreeSet<&str> = rows.iter().map(|row| row.tag.as_str()).collect();
        assert_eq!((tags.len(), rows.len()), (24, 488));
        mismatches(&rows, |row| row.unit).unwrap();
    }

    #[test]
    fn every_vector() {
        let Some(folder) = vectors_dir("mma::vs_h200") else { return };
        let rows = device_rows(&text(&folder.join("device_rows_h200.txt.gz")));
        assert!(rows.len() >= 20_000, "{} rows", rows.len());
        mismatches(&rows, |row| row.unit).unwrap();
    }
}

mod controls {
    use vt_kernels::Arch;
    use vt_kernels::mma::{Path, Unit};

    use super::*;

    /// A row of one chip must not pass as another's, nor with a bit of alignment more or less.
    #[test]
    fn wrong_parameters_are_seen() {
        let rows = model_rows(&text(&root().join("tests/data/mma_sample.txt")));
        let of = |prefix: &str| -> Vec<_> {
            rows.iter().filter(|row| row.tag.starts_with(prefix)).cloned().collect()
        };
        let other =
            |arch: Arch| move |unit: Unit| Unit::new(arch, unit.instruction, unit.accumulator).unwrap();
        for (prefix, arch) in [
            ("amp16:bf16", Arch::Sm90a),
            ("ada16:bf16", Arch::Sm121a),
            ("hop16:bf16", Arch::Sm80),
            ("rtx16:bf16", Arch::Sm89),
            ("adaq32:e4m3", Arch::Sm121a),
            ("adaq32:e4m3", Arch::Sm90a),
            ("hopq32:e4m3", Arch::Sm89),
            ("hopq32:e4m3", Arch::Sm121a),
            ("rtxq32:e4m3:e4m3", Arch::Sm90a),
            ("rtxq32:e4m3:e4m3", Arch::Sm89),
        ] {
            let rows = of(prefix);
            mismatches(&rows, |row| row.unit).unwrap();
            assert!(mismatches(&rows, |row| other(arch)(row.unit)).is_err(), "{prefix} passes as {arch}");
        }
        for prefix in [
            "amp16:",
            "hop16:",
            "rtx16:",
            "wgq32:e4m3",
            "adaq32:",
            "rtxq32:",
            "rtxmx32:",
            "gst16:ue4m3",
            "gst16:ue8m0",
        ] {
            let rows = of(prefix);
            for by in [-1, 1] {
                let wrong = |unit: Unit| Unit { fraction: unit.fraction + by, ..unit };
                let seen = mismatches(&rows, |row| wrong(row.unit)).is_err();
                assert!(seen, "{prefix} passes with {by} fraction bits");
            }
        }
        let fused = |unit: Unit| Unit { path: Path::Fused, ..unit };
        assert!(mismatches(&of("gst16:ue8m0"), |row| fused(row.unit)).is_err());
    }
}
