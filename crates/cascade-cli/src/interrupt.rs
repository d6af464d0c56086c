//! Ctrl-C: what was done so far, and how to go on.
//!
//! The first Ctrl-C ends the command with status 130 after a line on standard error that its job
//! has [given](on_interrupt), or, if the command [asks](cooperate), at the next convenient moment.
//! A second one ends it at once.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::exit::ExitCode;
use crate::terminal;

/// Exit status of a command that Ctrl-C has ended, as of a shell's own commands.
const INTERRUPTED: u8 = 130;

/// What to say.
type Summary = Box<dyn Fn() -> String + Send>;

static REQUESTED: AtomicBool = AtomicBool::new(false);
static COOPERATING: AtomicBool = AtomicBool::new(false);
static SUMMARY: Mutex<Option<Summary>> = Mutex::new(None);

/// The exit status after an interrupt.
pub fn status() -> ExitCode {
    ExitCode::from(INTERRUPTED)
}

/// Ends this process on Ctrl-C, after printing what `summary` returns: what was done so far, and
/// how to go on. It is called on another thread.
pub fn on_interrupt(summary: impl Fn() -> String + Send + 'static) {
    if let Ok(mut place) = SUMMARY.lock() {
        *place = Some(Box::new(summary));
    }
    watch();
}

/// Lets Ctrl-C only set a flag, which the caller promises to look at.
pub fn cooperate() {
    COOPERATING.store(true, SeqCst);
    watch();
}

/// Lets Ctrl-C only set a flag, until the result is dropped; what was pressed is then forgotten.
pub fn cooperate_meanwhile() -> Meanwhile {
    cooperate();
    Meanwhile
}

/// A part of a command during which Ctrl-C only sets a flag.
pub struct Meanwhile;

impl Drop for Meanwhile {
    fn drop(&mut self) {
        COOPERATING.store(false, SeqCst);
        REQUESTED.store(false, SeqCst);
    }
}

/// Whether Ctrl-C was pressed.
pub fn requested() -> bool {
    REQUESTED.load(SeqCst)
}

/// Goes on unless Ctrl-C was pressed.
pub fn unless_requested() -> ControlFlow<()> {
    if requested() {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// Begins to watch: from now on Ctrl-C ends the process with status 130. Where that is impossible,
/// it ends the process as it always does.
pub fn watch() {
    static WATCHING: std::sync::Once = std::sync::Once::new();
    WATCHING.call_once(|| drop(ctrlc::set_handler(interrupted)));
}

fn interrupted() {
    let again = REQUESTED.swap(true, SeqCst);
    if COOPERATING.load(SeqCst) && !again {
        return;
    }
    let summary = SUMMARY.lock().ok().and_then(|mut place| place.take());
    if let Some(summary) = summary.filter(|_| !again) {
        terminal::note(format_args!("\ninterrupted: {}", summary()));
    }
    cascade_core::fs::remove_temporaries();
    std::process::exit(INTERRUPTED.into());
}

/// Lets Ctrl-C and SIGTERM remove the files that are not complete before they end this process as
/// they always do.
pub fn remove_temporaries_on_termination() {
    watch();
    #[cfg(unix)]
    {
        use signal_hook::consts::SIGTERM;
        static WATCHING: std::sync::Once = std::sync::Once::new();
        // The thread comes first: without one, the signal has to end the process by itself.
        let watching = || {
            let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGTERM]) else {
                return;
            };
            for signal in signals.forever() {
                cascade_core::fs::remove_temporaries();
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        };
        WATCHING.call_once(|| drop(std::thread::Builder::new().spawn(watching)));
    }
}
