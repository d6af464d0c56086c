//! Which vector instructions the kernels use: chosen once per process.

use std::fmt;
use std::sync::OnceLock;

/// The environment variable that chooses narrower instructions than the CPU has.
pub const VARIABLE: &str = "CASCADE_CPU";

/// A set of vector instructions that there are kernels for. Later ones are wider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// None: the reference that defines what all others compute.
    Scalar,
    /// NEON, of all 64-bit ARM CPUs.
    Neon,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 (F, BW, DQ, VL) with VNNI.
    Avx512,
    /// AVX-512 with BF16.
    Avx512Bf16,
    /// AVX-512 with AMX tiles of bytes and bf16.
    Amx,
}

impl Isa {
    /// All instruction sets.
    pub const ALL: [Self; 6] = [
        Self::Scalar,
        Self::Neon,
        Self::Avx2,
        Self::Avx512,
        Self::Avx512Bf16,
        Self::Amx,
    ];

    /// The name of the instruction set, as `CASCADE_CPU` takes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx512Bf16 => "avx512bf16",
            Self::Amx => "amx",
        }
    }

    /// Whether this process can use it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 => {
                Self::Avx512.is_available() && is_x86_feature_detected!("avx512bf16")
            }
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Self::Amx => Self::Avx512Bf16.is_available() && super::amx::works(),
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }

    /// Instruction sets that this process can use, the widest first.
    pub fn available() -> Vec<Self> {
        let all = Self::ALL.into_iter().rev();
        all.filter(|isa| isa.is_available()).collect()
    }

    /// The one that kernels use: the widest available, or what `CASCADE_CPU` says. Read once per
    /// process.
    ///
    /// # Errors
    /// What is wrong with the variable, and what it could be: its name is unknown, or this
    /// processor does not have it.
    pub fn chosen() -> Result<Self, String> {
        static CHOSEN: OnceLock<Result<Isa, String>> = OnceLock::new();
        let choose = || Self::choose(std::env::var(VARIABLE).ok().as_deref(), &Self::available());
        CHOSEN.get_or_init(choose).clone()
    }

    fn choose(name: Option<&str>, available: &[Self]) -> Result<Self, String> {
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Ok(available[0]);
        };
        let named = available.iter().find(|isa| isa.as_str() == name);
        named.copied().ok_or_else(|| {
            let names: Vec<&str> = available.iter().map(|isa| isa.as_str()).collect();
            format!(
                "{VARIABLE} is `{name}`, and this CPU can be used with: {}; give one of them, \
                 or unset it",
                names.join(", ")
            )
        })
    }

    /// The one that kernels use, the widest if `CASCADE_CPU` is wrong, which whoever loads a model
    /// learns.
    pub(crate) fn current() -> Self {
        static CURRENT: OnceLock<Isa> = OnceLock::new();
        *CURRENT.get_or_init(|| Self::chosen().unwrap_or_else(|_| Self::available()[0]))
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_if_the_processor_has_them() {
        let there = [Isa::Avx2, Isa::Scalar];
        assert_eq!(Isa::choose(None, &there), Ok(Isa::Avx2));
        assert_eq!(Isa::choose(Some(""), &there), Ok(Isa::Avx2));
        assert_eq!(Isa::choose(Some("scalar"), &there), Ok(Isa::Scalar));
        for wrong in ["avx512", "sse9"] {
            let said = Isa::choose(Some(wrong), &there).unwrap_err();
            assert!(
                said.contains(wrong) && said.contains("avx2, scalar"),
                "{said}"
            );
        }
    }

    #[test]
    fn there_is_always_one() {
        assert_eq!(Isa::available().last(), Some(&Isa::Scalar));
        assert!(Isa::current().is_available());
    }

    #[test]
    #[cfg(target_arch = "aarch64")]
    fn arm_has_neon() {
        assert_eq!(Isa::available(), [Isa::Neon, Isa::Scalar]);
    }
}
