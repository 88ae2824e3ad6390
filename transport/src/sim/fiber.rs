//! Coroutines, and switching between them and the loop that drives them.
//!
//! All of a world's coroutines and its loop are on one thread. A thread-local word tells which coroutine runs.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

type Switch = Yielder<(), ()>;

/// A coroutine's place in the running world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Current {
    /// The world: the address of what its processes share.
    pub(crate) world: usize,
    /// Which of the world's tasks.
    pub(crate) task: usize,
}

thread_local! {
    static RUNNING: Cell<Option<(Current, *const Switch)>> = const { Cell::new(None) };
}

/// Which coroutine runs on this thread, if one does.
pub(crate) fn current() -> Option<Current> {
    RUNNING.get().map(|(current, _)| current)
}

/// Switches from the running coroutine back to who resumed it, and returns when it is resumed again.
pub(crate) fn suspend() {
    let Some((_, switch)) = RUNNING.get() else { return };
    // SAFETY: `RUNNING` is set to a coroutine's own switch just while that coroutine runs (`resume` sets and resets
    // it), and the switch lives on that coroutine's stack as long as its body does.
    unsafe { &*switch }.suspend(());
}

/// A coroutine with a stack of its own.
pub(crate) struct Fiber {
    coroutine: Coroutine<(), (), ()>,
    switch: Rc<Cell<*const Switch>>,
}

impl Fiber {
    /// One that will run `body`, which must catch its own panics.
    pub(crate) fn new(stack: DefaultStack, body: Box<dyn FnOnce()>) -> Self {
        let switch = Rc::new(Cell::new(std::ptr::null()));
        let own = Rc::clone(&switch);
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Switch, ()| {
            own.set(yielder);
            RUNNING.set(RUNNING.get().map(|(current, _)| (current, std::ptr::from_ref(yielder))));
            body();
        });
        Self { coroutine, switch }
    }

    /// Runs it until it suspends itself or ends; returns whether it has ended.
    pub(crate) fn resume(&mut self, current: Current) -> bool {
        let outer = RUNNING.replace(Some((current, self.switch.get())));
        let result = self.coroutine.resume(());
        RUNNING.set(outer);
        matches!(result, CoroutineResult::Return(()))
    }

    /// Gives its stack back. What lives on it is forgotten, not dropped, if it has not ended.
    pub(crate) fn into_stack(mut self) -> DefaultStack {
        if !self.coroutine.done() {
            // SAFETY: the coroutine never runs again. Other stacks of the same process, which may refer to values on
            // this one, are abandoned together with it and never run again either; other processes of the world
            // refer to it by registered memory and transfers only, which the world has dropped before.
            unsafe { self.coroutine.force_reset() };
        }
        self.coroutine.into_stack()
    }
}

/// Stacks to be used again.
#[derive(Default)]
pub(crate) struct Stacks {
    size: usize,
    free: RefCell<Vec<DefaultStack>>,
}

impl Stacks {
    /// Stacks of `size` bytes each, of which only what is touched takes memory.
    pub(crate) fn new(size: usize) -> Self {
        Self { size, free: RefCell::default() }
    }

    pub(crate) fn take(&self) -> io::Result<DefaultStack> {
        self.free.borrow_mut().pop().map_or_else(|| DefaultStack::new(self.size), Ok)
    }

    pub(crate) fn put_back(&self, stack: DefaultStack) {
        self.free.borrow_mut().push(stack);
    }
}
