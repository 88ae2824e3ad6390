//! All links of a messenger: waiting, the service thread, and inboxes on demand.

mod waiting;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use super::context::{Context, Role};
use super::link::Link;
use super::needs;
use super::registry::Registry;
use super::service::ServiceThread;
use super::shares;
use crate::back_end::Provider;
use crate::error::{Error, Result};
use crate::membership::Subscription;
use crate::units::{Rank, SegmentId};

/// As [`waiting::CHECK_AFTER`], for a program that computes.
const CHECK_BESIDE: Duration = Duration::from_millis(1);

/// How often a waiter polls before it waits in earnest: about 2 µs.
const MOST_POLLS: u32 = 64;

pub(super) struct Engine {
    pub(super) context: Arc<Context>,
    pub(super) links: Registry<Link>,
    /// How often the next waiter polls.
    patience: AtomicU32,
    /// How many waits there were since it is zero.
    waits: AtomicU32,
    /// Up to which change of the membership the links were looked through.
    handled: AtomicU64,
    pub(super) service: ServiceThread,
    pub(super) is_stopping: AtomicBool,
    /// Whether the service thread has ended, and none comes any more.
    pub(super) is_unserved: AtomicBool,
    /// Makes inboxes on demand, as long as the messenger is open.
    pub(super) provider: OnceLock<Arc<dyn Provider>>,
    /// Has the messenger hear of what is declared.
    subscription: OnceLock<Subscription>,
    /// What is done while a call waits.
    pub(super) meanwhile: OnceLock<fn()>,
}

impl Engine {
    pub(super) fn new(context: Context) -> Arc<Self> {
        let size = context.fabric.size();
        let engine = Arc::new(Self {
            context: Arc::new(context),
            links: Registry::new(size),
            patience: AtomicU32::new(MOST_POLLS),
            waits: AtomicU32::new(0),
            handled: AtomicU64::new(0),
            service: ServiceThread::default(),
            is_stopping: AtomicBool::new(false),
            is_unserved: AtomicBool::new(false),
            provider: OnceLock::new(),
            subscription: OnceLock::new(),
            meanwhile: OnceLock::new(),
        });
        let context = &engine.context;
        let weak = Arc::downgrade(context);
        let membership = context.fabric.membership();
        let subscription = membership.on_disturbance(move || {
            if let Some(context) = weak.upgrade() {
                // Release: who sees the number sees what was declared.
                context.disturbances.fetch_add(1, Ordering::Release);
                context.stir();
            }
        });
        // Set once only: here.
        let _ = engine.subscription.set(subscription);
        // What was declared before this messenger could hear of it; what is declared from now on, it hears.
        if membership.check_job().is_err() || !membership.lost().is_empty() {
            context.disturbances.fetch_add(1, Ordering::Release);
        }
        let listener: Weak<Self> = Arc::downgrade(&engine);
        // As above.
        let _ = context.number.set(context.fabric.ports().open(context.space, listener));
        let provider: Arc<dyn Provider> = Arc::new(InboxProvider { engine: Arc::downgrade(&engine) });
        // As above.
        let _ = engine.provider.set(Arc::clone(&provider));
        context.fabric.set_provider(context.space, provider);
        engine
    }

    /// The link to `peer`, made if there is none.
    #[inline]
    pub(super) fn link(&self, peer: Rank) -> Result<&Arc<Link>> {
        match self.links.get(peer) {
            Some(link) => Ok(link),
            None => self.make_link(peer),
        }
    }

    #[cold]
    fn make_link(&self, peer: Rank) -> Result<&Arc<Link>> {
        self.make_link_by(peer, || Link::new(&self.context, peer))
    }

    /// The link to `peer`, made by `make` if there is none.
    pub(super) fn make_link_by(&self, peer: Rank, make: impl FnOnce() -> Result<Link>) -> Result<&Arc<Link>> {
        self.context.fabric.membership().check(peer)?;
        let link = self.links.get_or_make(peer, || {
            // Acquire: whoever stops waits for those who have not seen it.
            if self.is_stopping.load(Ordering::Acquire) {
                return Err(Error::Ending { reason: "the messenger is closed".into() });
            }
            make()
        })?;
        // The peer may have found the inbox, written into it and rung before the link was among those that waiters and
        // the service thread look at.
        self.context.stir();
        tracing::debug!(rank = %self.context.fabric.rank(), %peer, "an inbox was made");
        Ok(link)
    }

    /// Has nobody make inboxes for this messenger any more.
    pub(super) fn remove_provider(&self) {
        if let Some(provider) = self.provider.get() {
            self.context.fabric.remove_provider(self.context.space, provider);
        }
    }

    /// All links there are.
    pub(super) fn links(&self) -> &Registry<Link> {
        &self.links
    }

    /// Ends receives that have failed, and whose peers leave their memory alone by now.
    fn take_back(&self) {
        for link in self.links.iter().filter(|link| link.signs.lent.load(Ordering::Relaxed)) {
            link.take_turn().process(link);
        }
    }

    /// Does the work that there is on all links, copying included, until `stop` says so.
    pub(super) fn advance(&self, stop: &impl Fn() -> bool) {
        self.handle_disturbances();
        for link in self.links.iter().filter(|link| link.has_work()) {
            loop {
                let share = {
                    let mut state = link.take_turn();
                    state.process(link);
                    if stop() { None } else { state.take_share(link) }
                };
                let Some(share) = share else { break };
                let copied = shares::copy(link, &share, stop);
                link.take_turn().give_share_back(link, &share, copied);
            }
        }
    }

    /// Does the work that there is on all links, without copying more than a chunk of shared messages.
    pub(super) fn nudge(&self) {
        self.take_back();
        if self.context.settings.asynchronous {
            // What is to be copied, the service thread copies: the program wants to go on.
            self.advance(&|| true);
            self.leave_open_shares();
        } else {
            let copied = std::cell::Cell::new(0);
            // Asked three times for a chunk: before a share is taken, before and behind its first chunk.
            self.advance(&|| copied.replace(copied.get() + 1) >= 2);
        }
        if self.is_inquiry_due() {
            // It takes a moment, which the service thread has.
            if self.context.settings.asynchronous { self.context.stir() } else { self.inquire(|| false) }
        }
    }

    /// Leaves what is to be copied to those who wait in a call, or else to the service thread.
    pub(super) fn leave_open_shares(&self) {
        if self.context.settings.asynchronous
            && self.links.iter().any(|link| link.signs.has_open.load(Ordering::Relaxed))
        {
            if self.context.waiters.take_over() {
                // They may be asleep, and what they wait for may never come.
                self.context.back_end().wake();
            } else {
                self.context.stir();
            }
        }
    }

    /// Ends what has to do with those who are lost.
    pub(super) fn handle_disturbances(&self) {
        // Acquire: pairs with the Release of whoever counted.
        let disturbances = self.context.disturbances.load(Ordering::Acquire);
        if disturbances == self.handled.load(Ordering::Relaxed) {
            return;
        }
        for link in self.links.iter() {
            if let Err(error) = self.check(link.peer) {
                let mut state = link.take_turn();
                if state.error.is_none() {
                    state.fail(link, error);
                }
                state.publish(link);
            }
        }
        self.handled.store(disturbances, Ordering::Relaxed);
    }

    /// Makes sure that what was sent on `which` links has arrived.
    pub(super) fn check_links(&self, which: impl Fn(&Link) -> bool) {
        for link in self.links.iter().filter(|link| which(link)) {
            let mut state = link.take_turn();
            if state.error.is_none()
                && let Err(error) = state.check(link)
            {
                state.fail(link, error);
            }
            state.publish(link);
        }
    }

    /// Makes sure that there is a link to `peer`, and a service thread if messages are to go on by themselves. It comes
    /// with the first inbox: who talks to nobody needs none, and a peer that can ask for a rendezvous can only do so
    /// through an inbox.
    #[inline]
    pub(super) fn ready_link(self: &Arc<Self>, peer: Rank) -> Result<&Arc<Link>> {
        let link = self.link(peer)?;
        if self.context.settings.asynchronous {
            self.service.start(|| {
                let engine = Arc::clone(self);
                self.context.back_end().spawn("messages", Box::new(move || engine.serve()))
            })?;
        }
        Ok(link)
    }

    fn serve(&self) {
        let context = &self.context;
        // Somebody who waits in a call copies as well as this thread, and does not need to be switched to.
        let stop = || context.waiters.take_over() || self.is_stopping.load(Ordering::Relaxed);
        let mut next_check = None;
        loop {
            if next_check.is_none() && context.armed.load(Ordering::SeqCst) {
                next_check = Some(context.fabric.now().after(CHECK_BESIDE));
            }
            let waited = context.fabric.wait_interrupt(context.interrupt, next_check);
            needs::look_after_interrupt();
            if self.is_stopping.load(Ordering::Acquire) {
                break;
            }
            if waited.is_err() {
                self.end_with_fabric();
                self.advance(&stop);
                break;
            }
            if next_check.is_some_and(|time| context.fabric.now() >= time) {
                next_check = None;
                context.armed.store(false, Ordering::SeqCst);
                let unchecked = |link: &Link| link.signs.unchecked.load(Ordering::SeqCst);
                if self.links.iter().any(|link| unchecked(link)) {
                    context.armed.store(true, Ordering::SeqCst);
                    self.check_links(unchecked);
                }
            }
            self.advance(&stop);
            self.inquire(|| self.is_stopping.load(Ordering::Relaxed));
            if context.waiters.are_there() {
                // What was left for those who wait.
                context.back_end().wake();
            }
        }
    }

    /// Whether the job goes on, and `peer` and all that are watched are there.
    #[inline]
    pub(super) fn check(&self, peer: Rank) -> Result<()> {
        self.context.check(peer)
    }
}

/// Makes what peers ask for when they first send.
struct InboxProvider {
    engine: Weak<Engine>,
}

impl Provider for InboxProvider {
    fn provide(&self, asker: Rank, id: SegmentId) {
        let Some(engine) = self.engine.upgrade() else { return };
        let (role, peer) = Context::role(id.number);
        // Who finds no inbox learns that there is no messenger any more; from one that is made too late, nobody reads.
        if peer != asker || engine.is_stopping.load(Ordering::Acquire) {
            return;
        }
        let made = match role {
            Role::Inbox => engine.ready_link(peer).map(|_| ()),
            Role::Staging => engine.ready_link(peer).and_then(|link| link.stage(role).map(|_| ())),
            Role::Departing => Ok(()),
        };
        if let Err(error) = made {
            tracing::warn!(%peer, %error, "no buffers for a peer that wants to send");
        }
    }
}
