//! All interleavings: whoever sleeps through what was said would sleep for ever, which loom reports.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use super::{Bell, InterruptLine, Remaining};

/// All interleavings with at most so many preemptions.
fn check(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// What one side says by relaxed stores, as a remote write is: the bell alone has to order them.
#[derive(Default)]
struct Said {
    bell: Bell,
    words: [AtomicU32; 2],
}

impl Said {
    fn say(&self, word: usize) {
        self.words[word].store(1, Ordering::Relaxed);
        self.bell.ring();
    }

    fn hear_all(&self) {
        let all = || self.words.iter().all(|word| word.load(Ordering::Relaxed) == 1);
        self.bell.sleep(|| Remaining::Forever, || all().then_some(()));
    }
}

#[test]
fn one_sleeper_hears_two() {
    check(3, || {
        let said = Arc::new(Said::default());
        let others = [0, 1].map(|word| {
            let said = Arc::clone(&said);
            thread::spawn(move || said.say(word))
        });
        said.hear_all();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn two_sleepers_hear_one_who_rings_twice() {
    check(3, || {
        let said = Arc::new(Said::default());
        let others = [0, 1].map(|_| {
            let said = Arc::clone(&said);
            thread::spawn(move || said.hear_all())
        });
        said.say(0);
        said.say(1);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[derive(Default)]
struct Interrupted {
    process: Bell,
    line: InterruptLine,
    message: AtomicU32,
    is_taken: AtomicU32,
}

impl Interrupted {
    fn has_message(&self) -> bool {
        self.message.load(Ordering::Relaxed) == 1
    }

    fn send(&self) {
        self.message.store(1, Ordering::Relaxed);
        self.line.trigger(&self.process);
    }

    /// What the one who attended does for the sleeper's sake, if it has taken the message.
    fn end(&self) {
        self.is_taken.store(1, Ordering::Relaxed);
        self.line.disturb();
    }

    /// The thread that sleeps on the interrupt: until it has got the message, or the other has.
    fn sleep(&self) {
        let look = |count| {
            let is_here = count > 0;
            assert!(!is_here || self.has_message(), "an interrupt without what was written before it");
            (is_here || self.is_taken.load(Ordering::Relaxed) == 1).then_some(())
        };
        self.line.sleep(|| Remaining::Forever, look);
    }
}

#[test]
fn every_trigger_is_counted() {
    check(3, || {
        let interrupted = Arc::new(Interrupted::default());
        let others = [0, 1].map(|_| {
            let interrupted = Arc::clone(&interrupted);
            thread::spawn(move || interrupted.line.trigger(&interrupted.process))
        });
        let mut sum = 0;
        interrupted.line.sleep(
            || Remaining::Forever,
            |count| {
                sum += count;
                (sum == 2).then_some(())
            },
        );
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// One attends, looks once, and leaves, while a message comes: either it has taken it, or the sleeper is woken.
#[test]
fn who_stops_attending_hands_on_what_came() {
    check(3, || {
        let interrupted = Arc::new(Interrupted::default());
        let (sender, sleeper) = (Arc::clone(&interrupted), Arc::clone(&interrupted));
        let others = [thread::spawn(move || sender.send()), thread::spawn(move || sleeper.sleep())];
        let attendance = interrupted.line.attend();
        attendance.take_note();
        let is_here = interrupted.has_message();
        drop(attendance);
        if is_here {
            interrupted.end();
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// One attends and falls asleep on the process's bell: a trigger wakes it there.
#[test]
fn who_attends_asleep_is_woken() {
    check(3, || {
        let interrupted = Arc::new(Interrupted::default());
        let (sender, sleeper) = (Arc::clone(&interrupted), Arc::clone(&interrupted));
        let others = [thread::spawn(move || sender.send()), thread::spawn(move || sleeper.sleep())];
        let attendance = interrupted.line.attend();
        let look = || {
            attendance.take_note();
            interrupted.has_message().then_some(())
        };
        interrupted.process.sleep(|| Remaining::Forever, look);
        drop(attendance);
        interrupted.end();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}
