//! The whole program on the mock CUDA driver: the shipped PTX is loaded, captured and launched as
//! on a real GPU, and executed by the PTX interpreter.

#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

fn cascade(args: &[&str], variables: &[(&str, &str)]) -> Output {
    let driver = tempfile::tempdir().unwrap();
    cascade_cuda_mock::install(driver.path()).unwrap();
    Command::new(env!("CARGO_BIN_EXE_cascade"))
        .args(args)
        .env("LD_LIBRARY_PATH", driver.path())
        .env("HF_ENDPOINT", "http://127.0.0.1:9")
        .env("HF_HOME", "/nonexistent/hf")
        .env_remove("CASCADE_GPU_OVERLAP")
        // The interpreter takes its time for it; `doctor` runs it in any case.
        .env("CASCADE_GPU_SELF_TEST", "0")
        .env_remove("CASCADE_PTX_MEMORY")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn stdout(args: &[&str], variables: &[(&str, &str)]) -> String {
    let output = cascade(args, variables);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

fn error(args: &[&str], variables: &[(&str, &str)]) -> String {
    let output = cascade(args, variables);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    message
}

/// A cascade of two neural models and Max-Gram, lenient and with a tree.
struct Config {
    _folder: TempDir,
    path: PathBuf,
}

impl Config {
    fn new(family: &str, dtype: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cascade.yaml");
        let neural = |level: &str, more: &str| {
            format!("{{ model: embedded:demo-{family}-{level}, dtype: {dtype}{more} }}")
        };
        // The small models of the family, to keep the emulation fast.
        let target = neural("base", "");
        let drafter = neural("small", ", branches: { widths: [2] }");
        let text = format!(
            "target: {target}\n\
             drafters: [{drafter}, {{ max_gram: {{ bigram: embedded:demo }} }}]\n\
             k: {{ convention: added, matrix: [[2, 1], [0, 1]] }}\n\
             lenience: 3\n"
        );
        std::fs::write(&path, text).unwrap();
        Self {
            _folder: folder,
            path,
        }
    }

    fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

#[test]
fn doctor_lists_the_gpu() {
    let said = stdout(&["doctor"], &[]);
    let line = said
        .lines()
        .find(|line| line.starts_with("cuda:0"))
        .unwrap();
    assert!(
        line.ends_with("PTX interpreter (Forward), 0.0 of 1.0 GiB in use"),
        "{line}"
    );
    let kernels = said.lines().find(|line| line.starts_with("cuda:0 kernels"));
    let right = "32 ok; CUDA 13.0 (driver 580), compute capability 9.0, 264 blocks at once, \
                 launches do not overlap (CASCADE_GPU_OVERLAP=1)";
    assert!(kernels.unwrap().ends_with(right), "{said}");
}

/// Token ids of an output, which must equal plain decoding.
fn answer(config: &Config, device: &str, variables: &[(&str, &str)]) -> Vec<Value> {
    answer_on(config, Some(device), variables)
}

/// The same on `device`, or where the configuration says.
fn answer_on(config: &Config, device: Option<&str>, variables: &[(&str, &str)]) -> Vec<Value> {
    let device = device.map_or(Vec::new(), |device| vec!["--device", device]);
    let run = [&["run", "--config", config.path()], &device[..]].concat();
    let prompt = ["--prompt", "Tom has 3 apples and buys 4 more."];
    let rest = ["--max-new-tokens", "8", "--compare", "--json"];
    let said = stdout(&[&run[..], &prompt, &rest].concat(), variables);
    let said: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!(said["equal_to_plain"], true, "{said}");
    said["token_ids"].as_array().unwrap().clone()
}

#[test]
fn cascades_equal_plain_decoding() {
    for family in ["t5", "llama"] {
        let config = Config::new(family, "bf16");
        let ids = answer(&config, "cuda:0", &[]);
        assert_eq!(ids.len(), 8);
        // Threads and blocks in other orders, older kernels, and launches that overlap.
        assert_eq!(answer(&config, "cuda:1", &[]), ids);
        assert_eq!(answer(&config, "cuda:2", &[]), ids);
        let overlap = [("CASCADE_GPU_OVERLAP", "1")];
        assert_eq!(answer(&config, "cuda:2", &overlap), ids);
    }
}

/// Standard error of a run without `--device`.
fn notes(config: &Config, variables: &[(&str, &str)]) -> String {
    let run = ["run", "--config", config.path(), "--dataset", "problems"];
    let few = ["--limit", "1", "--max-new-tokens", "1"];
    let output = cascade(&[&run[..], &few].concat(), variables);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{message}");
    message
}

#[test]
fn without_a_device_the_gpu_is_used_if_it_works() {
    let config = Config::new("t5", "bf16");
    assert_eq!(notes(&config, &[]), "");
    // No driver: the CPU, as on most machines.
    assert_eq!(notes(&config, &[("LD_LIBRARY_PATH", "/nonexistent")]), "");
}

#[test]
fn a_drafter_may_compute_on_another_device() {
    let config = Config::new("llama", "f32");
    let everywhere = answer_on(&config, None, &[]);
    let text = std::fs::read_to_string(config.path()).unwrap();
    let moved = text.replace("branches:", "device: cpu, branches:");
    assert_ne!(moved, text);
    std::fs::write(config.path(), moved).unwrap();
    assert_eq!(answer_on(&config, None, &[]), everywhere);
    // The memory of the GPU is counted for the target alone.
    let fits = [("CASCADE_PTX_MEMORY", "30000000")];
    assert_eq!(answer_on(&config, None, &fits), everywhere);
    std::fs::write(config.path(), text).unwrap();
}

#[test]
fn in_f32_a_gpu_equals_the_cpu() {
    for family in ["t5", "llama"] {
        let config = Config::new(family, "f32");
        let of_cpu = answer(&config, "cpu", &[]);
        assert_eq!(answer(&config, "cuda:0", &[]), of_cpu, "{family}");
    }
}

#[test]
fn forwards_are_measured_and_profiled() {
    let bench = [
        "bench",
        "model",
        "embedded:demo-llama-small",
        "--device",
        "cuda:0",
    ];
    let rest = [
        "--contexts",
        "16",
        "--rows",
        "1",
        "--repeats",
        "2",
        "--profile",
        "--json",
    ];
    // The less memory there is, the less is read to measure the bandwidth.
    let memory = [("CASCADE_PTX_MEMORY", "20000000")];
    let said = stdout(&[&bench[..], &rest].concat(), &memory);
    let said: Value = serde_json::from_str(&said).unwrap();
    // One layer of five launches, and three more.
    assert_eq!(said["forwards"][0]["launches"], 8);
    let purposes = said["profiles"][0]["purposes"].as_array().unwrap();
    let launches = purposes
        .iter()
        .map(|purpose| purpose["launches"].as_u64().unwrap());
    assert_eq!(launches.sum::<u64>(), 8);
    assert!(said["memory_bytes_per_second"].as_f64().unwrap() > 0.0);
    assert!(
        said["peak_memory_bytes"].as_u64().unwrap() > said["bytes_per_forward"].as_u64().unwrap()
    );
}

#[test]
fn missing_gpus_and_memory_are_reported() {
    let config = Config::new("t5", "bf16");
    let run = [
        "run",
        "--config",
        config.path(),
        "--prompt",
        "1",
        "--device",
    ];
    let on = |device: &'static str| [&run[..], &[device]].concat();
    let small = [("CASCADE_PTX_MEMORY", "1000000")];
    let message = error(&on("cuda:0"), &small);
    for part in ["demo-t5-base, demo-t5-small take about", "on cuda:0, and"] {
        assert!(message.contains(part), "{message}");
    }
    let message = error(&on("cuda:3"), &[]);
    assert!(
        message.contains("there is no GPU number 3: the driver knows 3"),
        "{message}"
    );
    assert!(message.contains("--device cpu"), "{message}");
    let shape = ["--shape", "vicuna-7b", "--random-weights"];
    let bench = ["bench", "model", "--device", "cuda:0"];
    let message = error(&[&bench[..], &shape].concat(), &[]);
    assert!(
        message.contains("take 13.5 GB, and 1.1 GB can be had (the GPU's free memory)"),
        "{message}"
    );
}

/// The kernels' PTX is labelled for the first drivers that have its instructions, which lack some
/// of the calls of later ones.
#[test]
fn old_drivers_suffice_and_older_ones_are_told_what_they_lack() {
    let config = Config::new("llama", "bf16");
    let ids = answer(&config, "cuda:0", &[]);
    for (device, cuda) in [("cuda:0", "11080"), ("cuda:1", "11040")] {
        let variables = [("CASCADE_PTX_CUDA", cuda), ("CASCADE_GPU_OVERLAP", "1")];
        assert_eq!(answer(&config, device, &variables), ids, "{device}");
    }
    let run = [
        "run",
        "--config",
        config.path(),
        "--prompt",
        "1",
        "--device",
        "cuda:1",
    ];
    let said = error(&run, &[("CASCADE_PTX_CUDA", "11030")]);
    for part in [
        "CUDA 11.3",
        "CUDA 11.4 (driver 470)",
        "Unsupported .version 7.4",
        "--device cpu",
    ] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn forwards_are_compared_with_themselves_and_the_cpu() {
    for (family, rows) in [("llama", "1,4,9"), ("t5", "3")] {
        let model = format!("embedded:demo-{family}-small");
        let bench = [
            "bench", "model", &model, "--device", "cuda:2", "--check", "--json",
        ];
        let sizes = ["--contexts", "6", "--rows", rows, "--source", "5"];
        let said = stdout(&[&bench[..], &sizes].concat(), &[]);
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["passed"], true, "{said}");
        let forwards = said["forwards"].as_array().unwrap();
        let compared = |with: &str| forwards.iter().filter(|f| f["compared"] == with).count();
        let many = rows.split(',').filter(|rows| *rows != "1").count();
        let all = rows.split(',').count();
        assert_eq!(
            [compared("chain"), compared("tree"), compared("cpu")],
            [all, many, all]
        );
    }
}
