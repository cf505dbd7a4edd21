//! The control socket between supervisor and worker: a SEQPACKET socket that keeps message boundaries and carries
//! descriptors.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, sendmsg, socketpair,
};
use serde::{Serialize, de::DeserializeOwned};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Longest message, bytes. The longest real one lists every layer with a reason, some KiB.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Most descriptors of one message: a leaf has a join file in each v1 hierarchy that it uses.
const FDS_MAX: usize = 8;

/// One end of a control socket.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: OwnedFd,
}

impl Channel {
    /// Creates both ends, which are closed on `exec`.
    pub(crate) fn pair() -> io::Result<(Channel, OwnedFd)> {
        let (our_end, their_end) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel { socket: our_end }, their_end))
    }

    /// Wraps the end that a worker inherited.
    pub(crate) fn from_fd(socket: OwnedFd) -> Channel {
        Channel { socket }
    }

    /// Sends one message. Blocks while the other end does not read.
    pub(crate) fn send<M: Serialize>(&self, message: &M, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::other("too many descriptors for one message"));
        }
        rustix::io::retry_on_intr(|| {
            sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)
        })?;
        Ok(())
    }

    /// Receives one message and its descriptors; `None` if the other end is closed. Blocks until there is a message.
    /// EMFILE if there was no room for the descriptors, which are lost with the message.
    pub(crate) fn receive<M: DeserializeOwned>(&self) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
        match self.receive_allowing_lost_fds()? {
            Some((message, Some(fds))) => Ok(Some((message, fds))),
            Some((_, None)) => Err(io::Error::from_raw_os_error(libc::EMFILE)),
            None => Ok(None),
        }
    }

    /// Like [`Self::receive`], but returns the message even if its descriptors are lost: they are `None` if there was
    /// no room for all of them.
    pub(crate) fn receive_allowing_lost_fds<M: DeserializeOwned>(
        &self,
    ) -> io::Result<Option<(M, Option<Vec<OwnedFd>>)>> {
        // The buffer is only as large as the message: a forked process pays for each page that it touches.
        let flags = RecvFlags::PEEK | RecvFlags::TRUNC;
        let (_, len) = retry_interrupted(|| recv(&self.socket, &mut [0_u8; 0], flags))?;
        if len == 0 {
            return Ok(None);
        }
        let mut bytes = vec![0; len.min(MESSAGE_BYTES_MAX)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = retry_interrupted(|| {
            recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
        })?;
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Err(io::Error::other("a control message was cut off"));
        }
        let whole = !received.flags.contains(ReturnFlags::CTRUNC);
        Ok(Some((serde_json::from_slice(&bytes)?, whole.then_some(fds))))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Retries when a signal interrupts, and after the ECONNRESET that is reported once, before the remaining messages, if
/// the other end closed without reading all of ours.
fn retry_interrupted<T>(mut receive: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match receive() {
            Err(Errno::CONNRESET | Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Waits at most `timeout_max` until there is data to read, or the end.
pub(crate) fn wait_readable(fd: impl AsFd, timeout_max: Duration) -> io::Result<()> {
    let until = Instant::now() + timeout_max;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::TimedOut)),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn messages_keep_their_boundaries_and_descriptors_and_the_end_is_reported() {
        let (our_end, their_end) = Channel::pair().unwrap();
        let their_end = Channel::from_fd(their_end);
        let (mut reader, writer) = io::pipe().unwrap();
        our_end.send(&"one", &[]).unwrap();
        our_end.send(&"two", &[writer.as_fd()]).unwrap();
        drop(writer);
        let (text, fds) = their_end.receive::<String>().unwrap().unwrap();
        assert_eq!((text.as_str(), fds.len()), ("one", 0));
        let (text, mut fds) = their_end.receive::<String>().unwrap().unwrap();
        assert_eq!((text.as_str(), fds.len()), ("two", 1));
        std::fs::File::from(fds.remove(0)).write_all(b"x").unwrap();
        let mut read = String::new();
        reader.read_to_string(&mut read).unwrap();
        assert_eq!(read, "x");
        drop(our_end);
        assert!(their_end.receive::<String>().unwrap().is_none());
    }
}
