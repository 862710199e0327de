//! Compiles what stands between this crate and Cyclone DDS.

fn main() {
    println!("cargo::rerun-if-changed=src/cyclone/shim.c");
    if std::env::var_os("CARGO_FEATURE_CYCLONE").is_none() {
        return;
    }
    cc::Build::new()
        .file("src/cyclone/shim.c")
        .std("gnu11")
        .flag("-Wall")
        .flag("-Wextra")
        .flag("-Wno-unused-parameter")
        .compile("verge_dds_shim");
    println!("cargo::rustc-link-lib=ddsc");
}
