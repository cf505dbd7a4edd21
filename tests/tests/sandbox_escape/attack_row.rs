//! The words of the table of attacks. Must not know any attack.

use proctor_core::isolation::Layer;
use proctor_core::limits::{LimitKind, Limits};
use proctor_core::outcome::KillReason;

/// One attack and everything that has to come of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttackRow {
    /// Its name.
    pub(crate) name: &'static str,
    /// The attack and its arguments, with places in braces that `HostTargets` fills in.
    pub(crate) attack: &'static [&'static str],
    /// How it is shown to succeed.
    pub(crate) without: Without,
    /// What is seen when it is held.
    pub(crate) end: End,
    /// What the run may use.
    pub(crate) limits: Limits,
    /// Whether an ordinary user of the host can do it, too, where nothing holds.
    pub(crate) anyone: bool,
    /// Why it cannot be held for an ordinary user without privilege.
    pub(crate) needs_privilege: Option<&'static str>,
    /// Whether it is one only for a run whose files belong to somebody else.
    pub(crate) only_as_nobody: bool,
    /// What a host may lack, so that the attack fails everywhere on it.
    pub(crate) host_may_lack: Option<&'static str>,
}

/// How an attack is shown to succeed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Without {
    /// In a sandbox without any of these layers.
    Layers {
        /// Each of these holds it alone.
        each: &'static [Layer],
        /// Some of these would hold it on some hosts, or stand in its way.
        also: &'static [Layer],
    },
    /// In a sandbox with room enough.
    Limit(Limits),
    /// Outside of any sandbox, as whoever runs the suite. For what a sandbox cannot be without.
    Sandbox,
    /// The same as an ordinary user: what has privilege itself is no attack by gaining it.
    SandboxAndPrivilege,
}

/// What is seen of a run whose attack was held. In every case nothing of the host has changed and no secret has come
/// out.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// The attack says so, or the filter has ended it.
    Refused,
    /// The attack says so, and the limit is told as hit.
    Hit(LimitKind),
    /// The run was killed for it.
    Killed(KillReason),
    /// The command ends well, and has harmed nobody.
    Harmless,
    /// The command ends well, and was slowed down.
    Throttled,
}

const MIB: u64 = 1024 * 1024;

/// Room enough for every attack.
pub(crate) const ROOMY: Limits = Limits {
    memory_bytes_max: 512 * MIB,
    cpu_millis_max: 2_000,
    pids_max: 512,
    wall_ms_max: 60_000,
    grace_ms: 300,
    log_bytes_max: 64 * MIB,
    tmp_bytes_max: 256 * MIB,
    disk_bytes_max: 256 * MIB,
    write_bytes_per_s_max: Limits::DEFAULT.write_bytes_per_s_max,
};

/// An attack that needs nothing but to be carried out.
pub(crate) const fn row(name: &'static str, attack: &'static [&'static str]) -> AttackRow {
    AttackRow {
        name,
        attack,
        without: Without::Sandbox,
        end: End::Refused,
        limits: ROOMY,
        anyone: false,
        needs_privilege: None,
        only_as_nobody: false,
        host_may_lack: None,
    }
}

impl AttackRow {
    /// Each of these layers holds it alone.
    pub(crate) const fn each(self, each: &'static [Layer]) -> AttackRow {
        self.without(Without::Layers { each, also: &[] })
    }

    /// These must be off as well for it to succeed.
    pub(crate) const fn also(self, also: &'static [Layer]) -> AttackRow {
        match self.without {
            Without::Layers { each, .. } => self.without(Without::Layers { each, also }),
            _ => self.without(Without::Layers { each: &[], also }),
        }
    }

    pub(crate) const fn without(self, without: Without) -> AttackRow {
        AttackRow { without, ..self }
    }

    pub(crate) const fn end(self, end: End) -> AttackRow {
        AttackRow { end, ..self }
    }

    /// Held by these limits, and not by [`ROOMY`] ones.
    pub(crate) const fn limits(self, limits: Limits) -> AttackRow {
        AttackRow { limits, ..self }.without(Without::Limit(ROOMY))
    }

    pub(crate) const fn anyone(self) -> AttackRow {
        AttackRow { anyone: true, ..self }
    }

    pub(crate) const fn needs_privilege(self, reason: &'static str) -> AttackRow {
        AttackRow { needs_privilege: Some(reason), ..self }
    }

    pub(crate) const fn only_as_nobody(self) -> AttackRow {
        AttackRow { only_as_nobody: true, ..self }
    }

    pub(crate) const fn host_may_lack(self, what: &'static str) -> AttackRow {
        AttackRow { host_may_lack: Some(what), ..self }
    }
}
