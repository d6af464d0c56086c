//! Small kernels, right and faulty.
#![allow(clippy::unwrap_used)]

use cascade_ptx_interpreter::{ExecutionOrder, KernelFault, Launch, Machine, Module, ReadError};

const ORDERS: [ExecutionOrder; 4] = [
    ExecutionOrder::Forward,
    ExecutionOrder::Backward,
    ExecutionOrder::Random(1),
    ExecutionOrder::Random(2),
];

/// A kernel `test` whose parameter is an address, in `%rd1`. The thread's index is in `%r1`, its
/// block's in `%r2`, the address of its word in `%rd3`, and four times its index in `%r3`. The body
/// begins in line 20.
fn kernel(body: &str) -> String {
    format!(
        "\
.version 9.0
.target sm_90
.address_size 64
.visible .entry test(
	.param .align 8 .b8 test_param_0[8]
)
.maxntid 256, 1, 1
{{
	.reg .pred 	%p<9>;
	.reg .f32 	%f<9>;
	.reg .b32 	%r<20>;
	.reg .b64 	%rd<20>;
	.shared .align 16 .b8 shared[1024];
	ld.param.u64 	%rd1, [test_param_0];
	mov.u32 	%r1, %tid.x;
	mov.u32 	%r2, %ctaid.x;
	mul.wide.u32 	%rd2, %r1, 4;
	add.s64 	%rd3, %rd1, %rd2;
	shl.b32 	%r3, %r1, 2;
{body}
	ret;
}}
"
    )
}

fn machine(text: &str, order: ExecutionOrder) -> Result<Machine, ReadError> {
    let mut machine = Machine::new(order);
    machine.load(Module::read(text)?);
    Ok(machine)
}

fn launch(parameters: &[u8], blocks: u32, threads: u32) -> Launch<'_> {
    Launch {
        kernel: "test",
        grid: [blocks, 1, 1],
        threads,
        parameters,
        overlaps: false,
    }
}

/// Runs a kernel over words, and gives them back.
fn run(
    body: &str,
    order: ExecutionOrder,
    (blocks, threads): (u32, u32),
    words: &[u32],
) -> Result<Vec<u32>, KernelFault> {
    let mut machine = machine(&kernel(body), order).unwrap();
    let address = upload(&mut machine, words);
    let parameters = address.to_le_bytes();
    let run = machine.launch(launch(&parameters, blocks, threads));
    run.map_err(|fault| fault.what)?;
    Ok(download(&mut machine, address, words.len()))
}

fn upload(machine: &mut Machine, words: &[u32]) -> u64 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let address = machine.allocate(bytes.len());
    let there = machine.bytes(address, bytes.len()).unwrap();
    there.copy_from_slice(&bytes);
    address
}

fn download(machine: &mut Machine, address: u64, count: usize) -> Vec<u32> {
    let bytes = machine.bytes(address, count * 4).unwrap().chunks(4);
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    bytes.map(word).collect()
}

/// The fault of a kernel, the same in all orders.
fn fault(body: &str, shape: (u32, u32), words: &[u32]) -> KernelFault {
    let said = ORDERS.map(|order| run(body, order, shape, words).unwrap_err());
    let kind = std::mem::discriminant(&said[0]);
    let same = said
        .iter()
        .all(|wrong| std::mem::discriminant(wrong) == kind);
    assert!(same, "{said:?}");
    said[0].clone()
}

/// The result of a kernel, the same in all orders.
fn result(body: &str, shape: (u32, u32), words: &[u32]) -> Vec<u32> {
    let made = ORDERS.map(|order| run(body, order, shape, words).unwrap());
    assert!(made.iter().all(|words| *words == made[0]));
    made[0].clone()
}

/// `text` without the first occurrence of `what`, or the last.
fn without_first(text: &str, what: &str) -> String {
    let (before, after) = text.split_once(what).unwrap();
    format!("{before}{after}")
}

fn without_last(text: &str, what: &str) -> String {
    let (before, after) = text.rsplit_once(what).unwrap();
    format!("{before}{after}")
}

const BARRIER: &str = "	bar.sync 	0;\n";
const FENCE: &str = "	membar.gl;\n";

#[test]
fn lanes_that_diverge_converge_again() {
    // Each lane doubles 1 as often as the last three bits of its index say; then neighbours
    // exchange their values.
    let body = "
	and.b32 	%r4, %r1, 7;
	mov.u32 	%r5, 1;
	setp.eq.s32 	%p1, %r4, 0;
	@%p1 bra 	$L2;
$L1:
	shl.b32 	%r5, %r5, 1;
	add.s32 	%r4, %r4, -1;
	setp.ne.s32 	%p2, %r4, 0;
	@%p2 bra 	$L1;
$L2:
	mov.b32 	%r6, 1;
	mov.b32 	%r7, 31;
	mov.b32 	%r8, -1;
	shfl.sync.bfly.b32 	%r9|%p3, %r5, %r6, %r7, %r8;
	st.global.u32 	[%rd3], %r9;";
    let want: Vec<u32> = (0..64u32).map(|thread| 1 << ((thread ^ 1) & 7)).collect();
    assert_eq!(result(body, (1, 64), &[0; 64]), want);
}

#[test]
fn lanes_that_jump_back_converge_with_the_others() {
    // Even lanes run code that stands after the shuffle, and come back to it.
    let body = "
	mov.b32 	%r6, 1;
	mov.b32 	%r7, 31;
	mov.b32 	%r8, -1;
	mov.u32 	%r5, 100;
	and.b32 	%r4, %r1, 1;
	setp.eq.s32 	%p1, %r4, 0;
	@%p1 bra 	$L2;
$L1:
	shfl.sync.bfly.b32 	%r9|%p3, %r5, %r6, %r7, %r8;
	st.global.u32 	[%rd3], %r9;
	ret;
$L2:
	add.s32 	%r5, %r1, 7;
	bra.uni 	$L1;";
    let value = |thread: u32| {
        if thread.is_multiple_of(2) {
            thread + 7
        } else {
            100
        }
    };
    let want: Vec<u32> = (0..32).map(|thread| value(thread ^ 1)).collect();
    assert_eq!(result(body, (1, 32), &[0; 32]), want);
}

#[test]
fn shuffles_that_some_lanes_never_reach_are_a_fault() {
    let body = "
	setp.gt.u32 	%p1, %r1, 7;
	@%p1 bra 	$L1;
	mov.b32 	%r6, 1;
	mov.b32 	%r7, 31;
	mov.b32 	%r8, -1;
	shfl.sync.bfly.b32 	%r9|%p3, %r1, %r6, %r7, %r8;
$L1:
	bar.sync 	0;";
    assert_eq!(fault(body, (1, 32), &[0]), KernelFault::DivergentWarp);
    let guarded = "	setp.gt.u32 	%p1, %r1, 7;\n	@%p1 bar.sync 	0;";
    assert_eq!(fault(guarded, (1, 32), &[0]), KernelFault::DivergentWarp);
    let ended = body.replace("bar.sync 	0;", "ret;");
    let wrong = fault(&ended, (1, 32), &[0]);
    assert!(matches!(wrong, KernelFault::Members { .. }), "{wrong}");
}

#[test]
fn barriers_order_accesses_to_shared_memory() {
    // A thread writes its index, and reads that of the thread on the other side of the block.
    let body = "
	mov.u32 	%r4, shared;
	add.s32 	%r5, %r4, %r3;
	st.shared.u32 	[%r5], %r1;
	bar.sync 	0;
	xor.b32 	%r6, %r3, 252;
	add.s32 	%r7, %r4, %r6;
	ld.shared.u32 	%r8, [%r7];
	st.global.u32 	[%rd3], %r8;";
    let want: Vec<u32> = (0..64).rev().collect();
    assert_eq!(result(body, (1, 64), &[0; 64]), want);
    // Without it a thread reads what was never written, or what another writes at the same time.
    let without = without_first(body, BARRIER);
    for order in ORDERS {
        let wrong = run(&without, order, (1, 64), &[0; 64]).unwrap_err();
        let known = matches!(
            wrong,
            KernelFault::Unwritten { .. } | KernelFault::RaceInBlock { .. }
        );
        assert!(known, "{wrong}");
    }
    // Even in one warp, whose lanes happen to run together.
    let in_warp = without.replace("252", "124");
    let wrong = fault(&in_warp, (1, 32), &[0; 32]);
    assert!(matches!(wrong, KernelFault::RaceInBlock { .. }), "{wrong}");
}

#[test]
fn reads_are_not_overwritten_before_a_barrier() {
    let body = "
	setp.ne.s32 	%p1, %r1, 0;
	@%p1 bra 	$L1;
	st.shared.u32 	[shared], %r1;
$L1:
	bar.sync 	0;
	ld.shared.u32 	%r8, [shared];
	bar.sync 	0;
	setp.ne.s32 	%p1, %r1, 5;
	@%p1 bra 	$L2;
	st.shared.u32 	[shared], %r1;
$L2:
	st.global.u32 	[%rd3], %r8;";
    assert_eq!(result(body, (1, 64), &[9; 64]), [0; 64]);
    for order in ORDERS {
        let without = without_last(body, BARRIER);
        let wrong = run(&without, order, (1, 64), &[9; 64]).unwrap_err();
        assert!(matches!(wrong, KernelFault::RaceInBlock { .. }), "{wrong}");
    }
}

/// Blocks write their index plus ten to memory; the last to finish adds the values up. Words: a
/// counter, the sum, one for each block.
const LAST_BLOCK: &str = "
	mul.wide.u32 	%rd4, %r2, 4;
	add.s64 	%rd5, %rd1, %rd4;
	setp.ne.s32 	%p1, %r1, 0;
	@%p1 bra 	$L1;
	add.s32 	%r4, %r2, 10;
	st.global.u32 	[%rd5+8], %r4;
$L1:
	membar.gl;
	bar.sync 	0;
	@%p1 bra 	$L2;
	atom.global.add.u32 	%r5, [%rd1], 1;
	st.shared.u32 	[shared], %r5;
$L2:
	bar.sync 	0;
	ld.shared.u32 	%r6, [shared];
	mov.u32 	%r7, %nctaid.x;
	add.s32 	%r8, %r6, 1;
	setp.ne.s32 	%p2, %r8, %r7;
	@%p2 bra 	$L4;
	membar.gl;
	@%p1 bra 	$L4;
	mov.u32 	%r9, 0;
	mov.u32 	%r10, 0;
	mov.u64 	%rd6, %rd1;
$L3:
	ld.global.cg.u32 	%r11, [%rd6+8];
	add.s32 	%r9, %r9, %r11;
	add.s64 	%rd6, %rd6, 4;
	add.s32 	%r10, %r10, 1;
	setp.lt.u32 	%p3, %r10, %r7;
	@%p3 bra 	$L3;
	st.global.u32 	[%rd1+4], %r9;
	st.global.u32 	[%rd1], 0;
$L4:";

#[test]
fn fences_and_counters_order_blocks() {
    let (shape, words) = ((7, 64), [0; 9]);
    let sum = (10..17).sum::<u32>();
    assert_eq!(result(LAST_BLOCK, shape, &words)[..2], [0, sum]);
    // Without either fence it is not guaranteed that the last block sees what others wrote; nor if
    // every block takes itself for the last.
    let not_last = without_first(LAST_BLOCK, "	@%p2 bra 	$L4;\n");
    for body in [
        without_first(LAST_BLOCK, FENCE),
        without_last(LAST_BLOCK, FENCE),
        not_last,
    ] {
        let wrong = fault(&body, shape, &words);
        assert!(matches!(wrong, KernelFault::RaceOfBlocks { .. }), "{wrong}");
    }
}

/// What is loaded together comes together; an address that is loaded is waited for first. Copies of
/// a register wait for nothing.
#[test]
fn waits_for_memory_are_counted_one_after_the_other() {
    let counted = |body: &str| {
        let mut machine = machine(&kernel(body), ExecutionOrder::Forward).unwrap();
        let address = upload(&mut machine, &[0; 64]);
        machine.count();
        let parameters = address.to_le_bytes();
        machine.launch(launch(&parameters, 2, 32)).unwrap();
        let counts = machine.counts().next().unwrap().1;
        (counts.latencies.round(), counts.waits, counts.awaited)
    };
    let together = "\
	ld.global.u32 	%r4, [%rd3];
	ld.global.u32 	%r5, [%rd3+128];
	mov.u32 	%r6, %r5;
	add.s32 	%r7, %r4, %r6;
	add.s32 	%r8, %r5, %r7;";
    assert_eq!(counted(together), (1.0, 2, 2 * 2 * 128));
    let dependent = "\
	ld.global.u32 	%r4, [%rd3];
	mul.wide.u32 	%rd4, %r4, 4;
	add.s64 	%rd5, %rd3, %rd4;
	ld.global.u32 	%r5, [%rd5];
	add.s32 	%r8, %r5, 1;";
    assert_eq!(counted(dependent), (2.0, 4, 4 * 128));
}

/// One thread counts for its block, after a barrier: no other executes a fence.
#[test]
fn additions_that_release_and_acquire_order_blocks() {
    let (shape, words) = ((7, 64), [0; 9]);
    let sum = (10..17).sum::<u32>();
    let counting = |order: &str| {
        let without = LAST_BLOCK.replace(FENCE, "");
        without.replace("atom.global", &format!("atom.{order}.gpu.global"))
    };
    assert_eq!(result(&counting("acq_rel"), shape, &words)[..2], [0, sum]);
    // Whoever does not write must have a barrier before it counts for those who do.
    let of_others =
        counting("acq_rel").replacen("setp.ne.s32 	%p1, %r1, 0", "setp.ne.s32 	%p1, %r1, 40", 1);
    let split = of_others.replacen(
        "	@%p1 bra 	$L2;",
        "	setp.ne.s32 	%p1, %r1, 0;\n	@%p1 bra 	$L2;",
        1,
    );
    assert_eq!(result(&split, shape, &words)[..2], [0, sum]);
    for body in [
        counting("relaxed"),
        counting("release"),
        counting("acquire"),
        without_first(&split, BARRIER),
    ] {
        let wrong = fault(&body, shape, &words);
        assert!(matches!(wrong, KernelFault::RaceOfBlocks { .. }), "{wrong}");
    }
}

#[test]
fn registers_of_inner_braces_are_theirs() {
    let body = "
	{
	.reg .pred there<1>;
	setp.ne.s32 	there0, %r1, 3;
	@there0 bra 	$L1;
	}
	{
	.reg .pred there<1>;
	setp.ne.s32 	there0, %r1, 4;
	@there0 st.global.u32 	[%rd3], %r1;
	}
$L1:
	mov.u32 	%r4, 0;";
    let mut want = [9; 32];
    want[3] = 3;
    assert_eq!(result(body, (1, 32), &[9; 32]), want);
}

#[test]
fn blocks_that_touch_the_same_are_a_race() {
    let write_write = "	st.global.u32 	[%rd3], %r2;";
    let read_write = "
	ld.global.u32 	%r4, [%rd1];
	setp.ne.s32 	%p1, %r2, 1;
	@%p1 bra 	$L1;
	st.global.u32 	[%rd1], %r4;
$L1:";
    for (body, threads) in [(write_write, 32), (read_write, 1)] {
        let wrong = fault(body, (2, threads), &[0; 32]);
        assert!(matches!(wrong, KernelFault::RaceOfBlocks { .. }), "{wrong}");
    }
}

#[test]
fn threads_that_write_the_same_are_a_race() {
    let wrong = fault("	st.global.u32 	[%rd1], %r1;", (1, 32), &[0]);
    assert!(matches!(wrong, KernelFault::RaceInBlock { .. }), "{wrong}");
    // Halves of a word do not overlap.
    let halves = "
	shr.u64 	%rd4, %rd2, 1;
	add.s64 	%rd5, %rd1, %rd4;
	st.global.u16 	[%rd5], %r1;";
    let want: Vec<u32> = (0..16)
        .map(|pair| (2 * pair) | ((2 * pair + 1) << 16))
        .collect();
    assert_eq!(result(halves, (1, 32), &[0; 16]), want);
}

#[test]
fn constants_are_not_written() {
    let body = "
	st.global.u32 	[%rd3], %r1;
	ld.global.nc.u32 	%r4, [%rd3];";
    let wrong = fault(body, (1, 32), &[0; 32]);
    assert!(matches!(wrong, KernelFault::NotConstant { .. }), "{wrong}");
}

/// Each thread copies sixteen bytes to shared memory, and overwrites their first four with those of
/// its neighbour.
const COPY: &str = "
	mov.u32 	%r4, shared;
	shl.b32 	%r5, %r1, 4;
	add.s32 	%r6, %r4, %r5;
	mul.wide.u32 	%rd4, %r1, 16;
	add.s64 	%rd5, %rd1, %rd4;
	mov.u32 	%r7, 16;
	cp.async.cg.shared.global 	[%r6], [%rd5], 16, %r7;
	cp.async.commit_group;
	cp.async.wait_group 	0;
	bar.sync 	0;
	xor.b32 	%r8, %r5, 16;
	add.s32 	%r9, %r4, %r8;
	ld.shared.u32 	%r10, [%r9];
	bar.sync 	0;
	st.global.u32 	[%rd5], %r10;";

#[test]
fn copies_are_waited_for() {
    let (shape, words) = ((1, 32), (0..128).collect::<Vec<u32>>());
    let got = result(COPY, shape, &words);
    let firsts: Vec<u32> = got.iter().copied().step_by(4).collect();
    let want: Vec<u32> = (0..32).map(|thread| (thread ^ 1) * 4).collect();
    assert_eq!(firsts, want);
    for body in [
        without_first(COPY, "	cp.async.wait_group 	0;\n"),
        COPY.replace("wait_group 	0;", "wait_group 	1;"),
    ] {
        let wrong = fault(&body, shape, &words);
        assert!(matches!(wrong, KernelFault::RaceInBlock { .. }), "{wrong}");
    }
    let (begin, _) = COPY.split_once("	cp.async.wait_group").unwrap();
    assert_eq!(fault(begin, shape, &words), KernelFault::Copies);
    let partly = COPY.replace("%r7, 16;", "%r7, 8;");
    assert_eq!(fault(&partly, shape, &words), KernelFault::PartialCopy(8));
    let nothing = COPY.replace("%r7, 16;", "%r7, 0;");
    assert_eq!(result(&nothing, shape, &words)[..4], [0, 1, 2, 3]);
}

#[test]
fn accesses_stay_within_what_is_allocated() {
    for body in [
        "	st.global.u32 	[%rd3+128], %r1;",
        "	ld.global.u32 	%r4, [%rd3+-4];",
        "	ld.global.v4.u32 	{%r4, %r5, %r6, %r7}, [%rd1+128];",
        "	st.shared.u32 	[shared+1024], %r1;",
        "	ld.param.u32 	%r4, [test_param_0+8];",
    ] {
        let wrong = fault(body, (1, 32), &[0; 32]);
        assert!(
            matches!(wrong, KernelFault::Outside { .. }),
            "{body}: {wrong}"
        );
    }
    let odd = "	ld.global.v4.u32 	{%r4, %r5, %r6, %r7}, [%rd1+8];";
    let wrong = fault(odd, (1, 32), &[0; 32]);
    assert!(
        matches!(wrong, KernelFault::Misaligned { bytes: 16, .. }),
        "{wrong}"
    );
    let wrong = fault("	ld.shared.u32 	%r4, [shared+8];", (1, 32), &[0; 32]);
    assert_eq!(wrong, KernelFault::Unwritten { address: 8 });
}

#[test]
fn launches_are_checked() {
    let text = kernel("	ld.global.u32 	%r4, [%rd1];");
    let mut machine = machine(&text, ExecutionOrder::Forward).unwrap();
    let address = upload(&mut machine, &[1]);
    let parameters = address.to_le_bytes();
    machine.launch(launch(&parameters, 1, 1)).unwrap();
    let wrong = |launch| machine.launch(launch).unwrap_err().what;
    let cases = [
        (
            launch(&parameters, 1, 257),
            KernelFault::Threads {
                given: 257,
                most: 256,
            },
        ),
        (
            launch(&parameters, 1, 0),
            KernelFault::Threads {
                given: 0,
                most: 256,
            },
        ),
        (
            launch(&parameters[..4], 1, 1),
            KernelFault::Parameters { given: 4, taken: 8 },
        ),
    ];
    let said: Vec<KernelFault> = cases.iter().map(|&(launch, _)| launch).map(wrong).collect();
    assert!(
        said.iter().eq(cases.iter().map(|(_, wrong)| wrong)),
        "{said:?}"
    );
    let unknown = Launch {
        kernel: "other",
        ..launch(&parameters, 1, 1)
    };
    let fault = machine.launch(unknown).unwrap_err();
    assert_eq!(fault.what, KernelFault::NoKernel("other".to_owned()));
    // Freed memory must not be accessed.
    machine.free(address);
    assert_eq!(machine.allocated(), 0);
    let fault = machine.launch(launch(&parameters, 1, 1)).unwrap_err();
    assert!(matches!(fault.what, KernelFault::Outside { .. }));
    assert_eq!((fault.line, fault.block, fault.thread), (20, [0; 3], 0));
}

#[test]
fn launches_that_overlap_wait_for_each_other() {
    let body = "
	griddepcontrol.wait;
	griddepcontrol.launch_dependents;
	ld.global.u32 	%r4, [%rd3];
	add.s32 	%r5, %r4, 1;
	st.global.u32 	[%rd3], %r5;";
    let twice = |body: &str, overlaps: [bool; 2]| {
        let mut machine = machine(&kernel(body), ExecutionOrder::Forward).unwrap();
        let address = upload(&mut machine, &[5; 32]);
        for overlaps in overlaps {
            let parameters = address.to_le_bytes();
            let launch = Launch {
                overlaps,
                ..launch(&parameters, 1, 32)
            };
            machine.launch(launch).map_err(|fault| fault.what)?;
        }
        Ok(download(&mut machine, address, 32))
    };
    assert_eq!(twice(body, [false, true]), Ok(vec![7; 32]));
    let without = without_first(body, "	griddepcontrol.wait;\n");
    assert_eq!(twice(&without, [false, false]), Ok(vec![7; 32]));
    let start = KernelFault::NoWait("lets the next kernel start");
    assert_eq!(twice(&without, [false, true]), Err(start));
    let too_early = "
	ld.global.u32 	%r4, [%rd3];
	griddepcontrol.wait;
	add.s32 	%r5, %r4, 1;
	st.global.u32 	[%rd3], %r5;";
    let wrong = twice(too_early, [false, true]).unwrap_err();
    assert!(
        matches!(
            wrong,
            KernelFault::TooEarly {
                how: "read",
                its: "wrote",
                ..
            }
        ),
        "{wrong}"
    );
    let too_early = "
	st.global.u32 	[%rd3], %r1;
	griddepcontrol.wait;
	ld.global.u32 	%r4, [%rd3];";
    let wrong = twice(too_early, [false, true]).unwrap_err();
    assert!(
        matches!(wrong, KernelFault::TooEarly { how: "written", .. }),
        "{wrong}"
    );
    let nothing = "	mov.u32 	%r4, 0;";
    assert_eq!(
        twice(nothing, [true, false]),
        Err(KernelFault::NoWait("ends"))
    );
}

#[test]
fn instructions_of_32_bits_compute_what_ptx_says() {
    let minus_three = -3i32 as u32;
    // Each computes a word in %r10 from -3 and 10, or from -1.5, 2 and NaN.
    let cases = [
        ("mad.lo.s32 	%r10, %r4, 7, %r5;", -11i32 as u32),
        ("mul.lo.s32 	%r10, %r4, %r5;", -30i32 as u32),
        ("min.s32 	%r10, %r4, %r5;", minus_three),
        ("min.u32 	%r10, %r4, 9;", 9),
        ("max.u32 	%r10, %r4, 9;", minus_three),
        ("shr.s32 	%r10, %r4, 1;", -2i32 as u32),
        ("shr.u32 	%r10, %r4, 1;", 0x7fff_fffe),
        ("shl.b32 	%r10, %r4, 32;", 0),
        ("div.u32 	%r10, %r4, 16;", 0x0fff_ffff),
        ("rem.u32 	%r10, %r4, 16;", 13),
        ("neg.s32 	%r10, %r4;", 3),
        ("not.b32 	%r10, %r4;", 2),
        ("selp.b32 	%r10, 4, 6, %p4;", 6),
        ("mov.pred 	%p4, 0;\n	selp.b32 	%r10, 4, 6, %p4;", 6),
        ("mov.pred 	%p5, -1;\n	selp.b32 	%r10, 4, 6, %p5;", 4),
        ("fma.rn.f32 	%r10, %f4, %f5, 0f40400000;", 0),
        ("mul.rn.f32 	%r10, %f4, %f5;", (-3.0f32).to_bits()),
        ("div.rn.f32 	%r10, %f5, %f4;", (2.0f32 / -1.5).to_bits()),
        ("max.f32 	%r10, %f4, %f6;", (-1.5f32).to_bits()),
        ("abs.f32 	%r10, %f4;", 1.5f32.to_bits()),
        ("copysign.f32 	%r10, %f4, %f5;", (-2.0f32).to_bits()),
        ("ex2.approx.ftz.f32 	%r10, %f5;", 4f32.to_bits()),
        ("rsqrt.approx.f32 	%r10, 0f40800000;", 0.5f32.to_bits()),
        ("cvt.rn.f32.u32 	%r10, 7;", 7f32.to_bits()),
        // The first operand in the upper half; ties to even; NaN stays NaN.
        ("cvt.rn.bf16x2.f32 	%r10, %f5, %f4;", 0x4000_bfc0),
        (
            "cvt.rn.bf16x2.f32 	%r10, 0f3F808000, 0f3F818000;",
            0x3f80_3f82,
        ),
        ("cvt.rn.bf16x2.f32 	%r10, %f6, 0f00000000;", 0x7fff_0000),
    ];
    for (code, want) in cases {
        let body = format!(
            "
	mov.u32 	%r4, -3;
	mov.u32 	%r5, 10;
	mov.f32 	%f4, 0fBFC00000;
	mov.f32 	%f5, 0f40000000;
	mov.f32 	%f6, 0f7FC00000;
	setp.lt.u32 	%p4, %r4, %r5;
	{code}
	st.global.u32 	[%rd3], %r10;"
        );
        let got = result(&body, (1, 1), &[1])[0];
        assert_eq!(got, want, "{code}: {got:#x}");
    }
}

#[test]
fn instructions_of_64_bits_compute_what_ptx_says() {
    let cases: [(&str, u64); 9] = [
        ("mul.wide.s32 	%rd4, %r4, 5;", -15i64 as u64),
        ("mul.wide.u32 	%rd4, %r4, 5;", 5 * (u64::from(u32::MAX) - 2)),
        ("cvt.u64.u32 	%rd4, %r4;", u64::from(u32::MAX) - 2),
        ("mul.lo.s64 	%rd4, %rd5, -3;", -15i64 as u64),
        ("shl.b64 	%rd4, %rd5, 40;", 5 << 40),
        ("shr.u64 	%rd4, %rd5, 1;", 2),
        ("and.b64 	%rd4, %rd5, 12;", 4),
        ("or.b64 	%rd4, %rd5, 8;", 13),
        ("selp.b64 	%rd4, 1, 2, %p4;", 1),
    ];
    for (code, want) in cases {
        let body = format!(
            "
	mov.u32 	%r4, -3;
	mov.u64 	%rd5, 5;
	setp.gt.s64 	%p4, %rd5, -1;
	{code}
	shr.u64 	%rd6, %rd4, 32;
	cvt.u32.u64 	%r10, %rd4;
	cvt.u32.u64 	%r11, %rd6;
	st.global.u32 	[%rd3], %r10;
	st.global.u32 	[%rd3+4], %r11;"
        );
        let got = result(&body, (1, 1), &[0, 0]);
        let got = u64::from(got[0]) | u64::from(got[1]) << 32;
        assert_eq!(got, want, "{code}: {got:#x}");
    }
}

#[test]
fn comparisons_know_nan() {
    let (one, two, nan) = ("0f3F800000", "0f40000000", "0f7FC00000");
    for (how, one_two, two_two, two_nan) in [
        ("lt", 1, 0, 0),
        ("le", 1, 1, 0),
        ("eq", 0, 1, 0),
        ("ge", 0, 1, 0),
        ("gt", 0, 0, 0),
        ("ne", 1, 0, 0),
        ("ltu", 1, 0, 1),
        ("leu", 1, 1, 1),
        ("equ", 0, 1, 1),
        ("geu", 0, 1, 1),
        ("gtu", 0, 0, 1),
        ("neu", 1, 0, 1),
        ("nan", 0, 0, 1),
        ("num", 1, 1, 0),
    ] {
        for (a, b, want) in [
            (one, two, one_two),
            (two, two, two_two),
            (two, nan, two_nan),
        ] {
            let body = format!(
                "
	setp.{how}.f32 	%p1, {a}, {b};
	selp.u32 	%r4, 1, 0, %p1;
	st.global.u32 	[%rd3], %r4;"
            );
            assert_eq!(result(&body, (1, 1), &[7]), [want], "{how} {a} {b}");
        }
    }
}

#[test]
fn unknown_statements_are_refused_by_line() {
    let refused = |text: &str| machine(text, ExecutionOrder::Forward).unwrap_err();
    let wrong = refused(&kernel("	sin.approx.f32 	%f1, %f2;"));
    assert_eq!(wrong.line, 20);
    assert!(wrong.to_string().ends_with("this instruction is not known"));
    for body in [
        "	mov.u32 	%r99, 1;",
        "	mov.u32 	%rd1, 1;",
        "	bra 	$L9;",
        "	mov.u32 	%r1, 1",
        "	ld.global.v2.u32 	%r1, [%rd1];",
        "	setp.eq.u8 	%p1, %r1, %r2;",
        "	add.s32 	%r1, %r2;",
        "	bar.sync 	1;",
    ] {
        refused(&kernel(body));
    }
    refused(".func nothing");
}

#[test]
fn constants_of_a_module_can_be_read() {
    let text = ".global .align 4 .b8 layout[12] = {1, 0, 0, 0, 255};\n".to_owned();
    let module = Module::read(&(text + &kernel(""))).unwrap();
    let layout = [1, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(module.constant("layout").unwrap(), layout);
    assert_eq!(module.constant("test"), None);
}
