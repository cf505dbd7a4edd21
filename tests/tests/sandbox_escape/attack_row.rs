//! The types of the attack table.

use proctor_core::isolation::Layer;
use proctor_core::limits::{LimitKind, Limits};
use proctor_core::outcome::KillReason;

/// One attack and the expected result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttackRow {
    /// Name of the row.
    pub(crate) name: &'static str,
    /// Name and arguments of the attack; `HostTargets` replaces placeholders in braces.
    pub(crate) attack: &'static [&'static str],
    /// How the attack is shown to succeed.
    pub(crate) without: Without,
    /// How the run ends when the attack is held.
    pub(crate) end: End,
    /// Limits of the run.
    pub(crate) limits: Limits,
    /// Whether an ordinary user can also carry it out outside of a sandbox.
    pub(crate) anyone: bool,
    /// Reason why a sandbox without privilege (of an ordinary user) cannot hold it.
    pub(crate) needs_privilege: Option<&'static str>,
    /// Whether it applies only to runs whose files belong to another user.
    pub(crate) only_as_nobody: bool,
    /// What a host may lack, so that the attack fails even outside of a sandbox.
    pub(crate) host_may_lack: Option<&'static str>,
}

/// What is removed to show that an attack succeeds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Without {
    /// Layers of the sandbox.
    Layers {
        /// Layers that each hold the attack alone.
        each: &'static [Layer],
        /// Layers that hold it on some hosts, or get in its way.
        also: &'static [Layer],
    },
    /// The limits: the sandbox gets roomy ones.
    Limit(Limits),
    /// The whole sandbox, run with the suite's own user id. For attacks on parts that a sandbox always has.
    Sandbox,
    /// The whole sandbox, run as an ordinary user, since root has no privilege to gain.
    SandboxAndPrivilege,
}

/// The end of a run whose attack was held. In every case the host is unchanged and no secret is in the output.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// The attack reports that it was refused, or the seccomp filter killed it.
    Refused,
    /// The attack reports that it was refused, and the report lists the limit as hit.
    Hit(LimitKind),
    /// The run was killed for this reason.
    Killed(KillReason),
    /// The command ends normally and has done no harm.
    Harmless,
    /// The command ends normally and was throttled.
    Throttled,
}

const MIB: u64 = 1024 * 1024;

/// Limits under which every attack succeeds.
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

/// A row with the simplest expectations: refused, and shown to succeed outside of a sandbox.
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
    /// Lists layers that each hold the attack alone.
    pub(crate) const fn each(self, each: &'static [Layer]) -> AttackRow {
        self.without(Without::Layers { each, also: &[] })
    }

    /// Lists layers that must also be off for the attack to succeed.
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

    /// The attack is held by these limits and succeeds with [`ROOMY`] ones.
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
