//! Asking agents: one's own at once, other nodes' by messages, several at a time.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

use super::client::{Attending, Mailbox, Question, Unasked};
use super::roster::Roster;
use super::wire::{self, Reply, Request};
use super::{Cluster, Context, NodeIndex};

/// A question to an agent.
pub(crate) enum Asked {
    /// It is on its way, to the agent of a node.
    Elsewhere(NodeIndex, Question),
    /// This process's own agent has answered.
    Answered(Reply, Vec<u8>),
}

impl Cluster {
    /// Asks a node's agent; on its own node, the leader does what is asked by itself.
    pub(crate) fn ask(&self, node: NodeIndex, request: &Request) -> Result<Reply> {
        self.ask_with(node, request, &[], &mut |_, _| {})
    }

    /// The same with bytes for the agent, and with what to do with those that it returns.
    pub(crate) fn ask_with(
        &self,
        node: NodeIndex,
        request: &Request,
        data: &[u8],
        take: &mut dyn FnMut(&Reply, &[u8]),
    ) -> Result<Reply> {
        match &self.agent {
            Some(agent) if node == self.own_node() => agent.serve_own(request, data, take),
            _ => self.context.ask_with(node, request, data, take),
        }
    }

    /// Asks, without waiting for the answer.
    pub(crate) fn begin(&self, node: NodeIndex, request: &Request, data: &[u8]) -> Result<Asked> {
        match &self.agent {
            Some(agent) if node == self.own_node() => {
                let mut out = Vec::new();
                let reply = agent.serve_own(request, data, &mut |_, bytes| out = bytes.to_vec())?;
                Ok(Asked::Answered(reply, out))
            }
            _ => self.context.begin(node, request, data).map(|question| Asked::Elsewhere(node, question)),
        }
    }

    /// Waits for the answer.
    pub(crate) fn wait(&self, asked: Asked, take: &mut dyn FnMut(&Reply, &[u8])) -> Result<Reply> {
        match asked {
            Asked::Elsewhere(node, question) => self.context.wait(node, question, take),
            Asked::Answered(reply, out) => {
                take(&reply, &out);
                Ok(reply)
            }
        }
    }

    /// Asks by a message, also on its own node; the answer goes to a mailbox, with the mark.
    pub(crate) fn ask_by_mail(
        &self,
        mail: (&Arc<Mailbox>, u64),
        node: NodeIndex,
        request: &Request,
    ) -> Result<()> {
        let Context { client, requests, roster, .. } = &*self.context;
        let asked = client.ask_by_mail(mail, requests, roster.leader(node), request);
        asked.map_err(|unasked| self.context.not_asked(node, unasked))
    }

    /// Has the caller take what comes into a mailbox, unless another thread does.
    pub(crate) fn attend<'c>(&'c self, mailbox: &'c Mailbox) -> Option<Attending<'c>> {
        self.context.client.attend(mailbox)
    }

    /// What came from a node into a mailbox.
    pub(crate) fn open_mail<T>(
        &self,
        node: NodeIndex,
        come: svmio_transport::Result<Vec<u8>>,
        take: impl FnOnce(&Reply, &[u8]) -> T,
    ) -> Result<T> {
        let context = &self.context;
        let bytes = come.map_err(|source| context.not_asked(node, Unasked::Fabric(source)))?;
        let (_, reply, data) = wire::decode::<Reply>(&bytes).ok_or_else(|| context.out_of_place(node))?;
        let reply = reply.into_result(context.roster.name(node))?;
        Ok(take(&reply, data))
    }

    /// That a node is not known to be lost.
    pub(crate) fn check_home(&self, node: NodeIndex) -> Result<()> {
        let context = &self.context;
        context.fabric.membership().check(context.roster.leader(node)).map_err(|source| {
            let subject = format!("asking node {}", context.roster.name(node));
            Error::Fabric { subject, source }
        })
    }

    /// Asks the agent of the master node.
    pub(super) fn ask_master(&self, request: &Request) -> Result<Reply> {
        self.ask(Roster::MASTER, request)
    }
}

impl Context {
    /// Asks another process's agent.
    pub(super) fn ask_with(
        &self,
        node: NodeIndex,
        request: &Request,
        data: &[u8],
        take: &mut dyn FnMut(&Reply, &[u8]),
    ) -> Result<Reply> {
        let question = self.begin(node, request, data)?;
        self.wait(node, question, take)
    }

    /// Waits for the answer of a node's agent.
    pub(super) fn wait(
        &self,
        node: NodeIndex,
        question: Question,
        take: &mut dyn FnMut(&Reply, &[u8]),
    ) -> Result<Reply> {
        self.client.wait(question, self.roster.name(node), take)
    }

    /// Whether waiting for the answer ends at once, or once its node is declared lost.
    pub(super) fn is_answered(&self, question: &Question) -> bool {
        self.client.is_answered(question)
    }

    /// Asks, without waiting for the answer.
    pub(super) fn begin(&self, node: NodeIndex, request: &Request, data: &[u8]) -> Result<Question> {
        let leader = self.roster.leader(node);
        let asked = self.client.ask(&self.requests, leader, request, data);
        asked.map_err(|unasked| self.not_asked(node, unasked))
    }

    fn not_asked(&self, node: NodeIndex, unasked: Unasked) -> Error {
        match unasked {
            Unasked::TooLong(bytes) => self.too_long(bytes),
            Unasked::Fabric(source) => {
                let subject = format!("asking node {}", self.roster.name(node));
                Error::Fabric { subject, source }
            }
        }
    }

    /// Asks all of `nodes`, none of which is this process's own, at once; returns the answers in their order.
    pub(super) fn ask_all(&self, nodes: &[NodeIndex], request: &Request) -> Result<Vec<Reply>> {
        self.ask_each(nodes, request).into_iter().collect()
    }

    /// The same, with what each of them answers, whatever goes wrong with another one.
    pub(super) fn ask_each(&self, nodes: &[NodeIndex], request: &Request) -> Vec<Result<Reply>> {
        let questions: Vec<_> = nodes.iter().map(|node| self.begin(*node, request, &[])).collect();
        let wait = |(node, question): (&NodeIndex, Result<Question>)| {
            self.client.wait(question?, self.roster.name(*node), &mut |_, _| {})
        };
        nodes.iter().zip(questions).map(wait).collect()
    }

    /// Whether a node's agent is lost.
    pub(super) fn is_lost(&self, node: NodeIndex) -> bool {
        let checked = self.fabric.membership().check(self.roster.leader(node));
        checked.is_err_and(|error| error.lost_peer().is_some())
    }

    /// Asks those of `nodes` that are not lost; returns who answered what. Whoever is lost meanwhile is left out, too.
    pub(super) fn ask_those_left(
        &self,
        nodes: &[NodeIndex],
        request: &Request,
    ) -> Result<Vec<(NodeIndex, Reply)>> {
        let left = nodes.iter().filter(|node| !self.is_lost(**node));
        let asked: Vec<_> = left.map(|node| (*node, self.begin(*node, request, &[]))).collect();
        let wait = |(node, question): (NodeIndex, Result<Question>)| {
            let answer = question
                .and_then(|question| self.client.wait(question, self.roster.name(node), &mut |_, _| {}));
            match answer {
                Err(_) if self.is_lost(node) => None,
                answer => Some(answer.map(|answer| (node, answer))),
            }
        };
        // All are waited for, whatever goes wrong with one.
        let answers: Vec<_> = asked.into_iter().filter_map(wait).collect();
        answers.into_iter().collect()
    }

    /// The error for a message of so many bytes.
    pub(super) fn too_long(&self, bytes: usize) -> Error {
        Error::OnNode {
            node: self.store.node().clone(),
            kind: ErrorKind::Other,
            message: format!(
                "what there is to tell of the file takes {bytes} bytes, more than the {} of a message: it has too many \
                 segments on ever other nodes; make it with a larger svm_segment_size",
                wire::LONGEST
            ),
        }
    }
}
