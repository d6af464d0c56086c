//! Compiles the kernels for the processor if the emulator is wanted. The GPU's form is in `kernels/*.ptx`.

fn main() {
    println!("cargo:rerun-if-changed=kernels");
    #[cfg(feature = "emulator")]
    cc::Build::new()
        .file("kernels/emulator.c")
        .std("gnu11")
        // Sums are what the kernels say, whatever they are inlined into.
        .flag("-ffp-contract=off")
        // Emulated tiles are slow enough without checks.
        .opt_level(2)
        .compile("cascade_emulator");
}
