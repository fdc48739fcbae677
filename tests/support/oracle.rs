//! Where oracle files are: `VT_ORACLE`, else `../shared/oracle` beside the checkout; absent on a stranger's machine.

use std::path::PathBuf;

/// The folder of oracle checkpoints and goldens, if there is one. Prints once per caller what is not run.
pub fn oracle_dir(test: &str) -> Option<PathBuf> {
    find("VT_ORACLE", "oracle", test)
}

/// The folder of MMA vectors, if there is one.
pub fn vectors_dir(test: &str) -> Option<PathBuf> {
    find("VT_VECTORS", "vectors", test)
}

/// The repository's root.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn find(variable: &str, folder: &str, test: &str) -> Option<PathBuf> {
    let path = match std::env::var_os(variable) {
        Some(path) => PathBuf::from(path),
        None => root().join("../shared").join(folder),
    };
    if path.is_dir() {
        return Some(path);
    }
    assert!(std::env::var_os(variable).is_none(), "{variable}: {} is not a folder", path.display());
    eprintln!("{test}: not run, {} is not there (set {variable})", path.display());
    None
}
