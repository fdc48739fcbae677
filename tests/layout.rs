//! The tree is complete and parallel: a kernel has the same path in every layer, files fit in a head, and
//! `unsafe` stays where it belongs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::oracle::root;

/// Files that hold one idea in more than 400 lines, each with its reason.
const LONG: &[(&str, &str)] = &[];

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(dir) else { return found };
    for path in entries.flatten().map(|e| e.path()) {
        let skip = ["target", ".git", "corpus", "artifacts"].iter().any(|name| path.ends_with(name));
        if path.is_dir() && !skip {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found
}

fn folders(dir: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let folders = entries.filter(|e| e.path().is_dir());
    folders.filter_map(|e| e.file_name().into_string().ok()).collect()
}

/// `family/kernel` of every folder under `vt-kernels/src` that has a `reference.rs`.
fn kernels() -> BTreeSet<String> {
    let src = root().join("vt-kernels/src");
    let mut found = BTreeSet::new();
    for family in folders(&src) {
        for kernel in folders(&src.join(&family)) {
            if src.join(&family).join(&kernel).join("reference.rs").is_file() {
                found.insert(format!("{family}/{kernel}"));
            }
        }
    }
    found
}

#[test]
fn every_kernel_has_reference_test_and_bench() {
    let kernels = kernels();
    assert!(kernels.contains("norm/rms"), "{kernels:?}");
    for kernel in &kernels {
        for path in [
            format!("vt-kernels/src/{kernel}/mod.rs"),
            format!("tests/{kernel}.rs"),
            format!("benches/{kernel}.rs"),
        ] {
            assert!(root().join(&path).is_file(), "{kernel} has no {path}");
        }
    }
}

#[test]
fn every_bench_belongs_to_a_kernel() {
    let kernels = kernels();
    for family in folders(&root().join("vt-kernels/src")) {
        for file in files(&root().join("benches").join(&family), "rs") {
            let stem = file.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
            let name = format!("{family}/{stem}");
            let known = stem == "mod" || family == "mma" || kernels.contains(&name);
            assert!(known, "benches/{name}.rs has no kernel");
        }
    }
}

#[test]
fn files_fit_in_a_head() {
    for file in files(&root(), "rs") {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(root()).unwrap().to_str().unwrap();
        let lines = text.lines().count();
        let excused = LONG.iter().any(|(path, _)| *path == name);
        assert!(lines <= 400 || excused, "{name} has {lines} lines, expected at most 400");
    }
}

#[test]
fn unsafe_only_at_the_edge() {
    for file in files(&root(), "rs") {
        let name = file.strip_prefix(root()).unwrap().to_str().unwrap();
        if file.ends_with("device.rs") || name.starts_with("vt-kernels-sys") || name == "tests/layout.rs" {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
        let hit = code.into_iter().find(|l| l.contains("unsafe {") || l.contains("allow(unsafe_code)"));
        assert!(hit.is_none(), "{name}: {}", hit.unwrap_or_default());
    }
}

#[test]
fn markdown_names_paths_that_exist() {
    for file in files(&root(), "md") {
        let text = std::fs::read_to_string(&file).unwrap();
        let folder = file.parent().unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            assert!(folder.join(path).exists(), "{}: {path} is not there", file.display());
        }
    }
}
