//! What is in force for one run, and the refusal of a run that lacks what it requires: once for what the supervisor has put
//! in force, once for what the worker has. Must not put anything in force itself.

use crate::cgroup::{self, MissingLimit};
use crate::disk::Disk;
use crate::error::SandboxError;
use crate::figures;
use crate::message::{Allotment, MissingLayer};
use crate::plan;
use crate::spec::{Jail, RunSpec};
use proctor_core::isolation::{Isolation, Layer, LimitInForce, Missing, Network};
use proctor_core::limits::{LimitKind, Limits};
use std::fs;
use std::os::fd::OwnedFd;

/// tmpfs counts pages in a signed long; nobody has a pebibyte of memory.
const TMP_BYTES_CEILING: u64 = 1 << 50;

/// What a worker is told of the limits: those that it enforces itself, and where it finds the others.
pub(crate) fn allotment(limits: &Limits, is_in_v2: bool) -> Allotment {
    let tmp_bytes_max = limits.tmp_bytes_max.min(TMP_BYTES_CEILING);
    let files_of_host = fs::read_to_string("/proc/sys/fs/file-max").ok().and_then(|max| max.trim().parse().ok());
    Allotment {
        tmp_bytes_max,
        tmp_inodes_max: plan::tmp_inodes_max(limits.tmp_bytes_max),
        files_max: plan::files_max(limits.pids_max, files_of_host.unwrap_or(u64::MAX)),
        is_in_v2,
    }
}

/// What a prepared worker has: known before there is a run.
#[derive(Debug)]
pub(crate) struct InForce {
    layers: Vec<Layer>,
    limits: Vec<LimitInForce>,
    missing_limits: Vec<MissingLimit>,
    missing_layers: Vec<MissingLayer>,
}

impl InForce {
    /// What the leaf gives.
    pub(crate) fn of_leaf(has_leaf: bool, limits: Vec<LimitInForce>, missing: Vec<MissingLimit>) -> Self {
        let layers = [Some(Layer::CleanEnvironment), has_leaf.then_some(Layer::Cgroup)];
        let layers = layers.into_iter().flatten().collect();
        Self { layers, limits, missing_limits: missing, missing_layers: Vec::new() }
    }

    /// Fails closed on a leaf that could not be had.
    pub(crate) fn refuse_without_leaf(&self, jail: &Jail) -> Result<(), SandboxError> {
        if self.layers.contains(&Layer::Cgroup) || !jail.required_layers.contains(&Layer::Cgroup) {
            return Ok(());
        }
        let why = self.missing_limits.first();
        Err(SandboxError::LayerMissing {
            layer: Layer::Cgroup,
            reason: why.map_or_else(String::new, |missing| missing.reason.clone()),
            remedy: why.map_or_else(String::new, |missing| missing.remedy.clone()),
        })
    }

    /// Takes in what the worker says. Fails closed a second time: a worker that left out a required layer without a word
    /// must not get a run.
    pub(crate) fn complete(
        &mut self,
        jail: &Jail,
        limits: &Limits,
        applied: &[Layer],
        missing: Vec<MissingLayer>,
        scratch: Option<&OwnedFd>,
    ) -> Result<(), SandboxError> {
        self.layers.extend(applied);
        self.layers.sort_unstable();
        if let Some(&layer) = jail.required_layers.iter().find(|layer| !self.layers.contains(layer)) {
            let why = missing.iter().find(|missing| missing.layer == layer);
            let reason = why.map_or("the worker did not put it on", |missing| missing.reason.as_str());
            let remedy = why.map_or("repair the installation", |missing| missing.remedy.as_str());
            return Err(SandboxError::LayerMissing { layer, reason: reason.into(), remedy: remedy.into() });
        }
        self.missing_layers = missing;
        self.limits.push(tmp_limit(limits, scratch)?);
        Ok(())
    }

    /// Whether the bound of writes is that of v1, which knows nothing of what the kernel writes back.
    pub(crate) fn bounds_writes_in_v1(&self) -> bool {
        self.limits.iter().any(|limit| limit.limit == LimitKind::Writes && limit.by == cgroup::V1)
    }

    /// Why `layer` is not in force, and what helps; `None` when it is.
    pub(crate) fn why_not(&self, layer: Layer) -> Option<(String, String)> {
        if self.layers.contains(&layer) {
            return None;
        }
        let of_layer = self.missing_layers.iter().find(|missing| missing.layer == layer);
        let of_leaf = self.missing_limits.first().map(|missing| (missing.reason.clone(), missing.remedy.clone()));
        of_layer.map(|missing| (missing.reason.clone(), missing.remedy.clone())).or(of_leaf)
    }

    /// Everything that is in force for `spec`. Fails closed on limits.
    pub(crate) fn isolation(&self, spec: &RunSpec, disk: &Disk) -> Result<Isolation, SandboxError> {
        if let Some(errno) = disk.lacks() {
            return Err(SandboxError::HostLacks { operation: "watching the disk".to_owned(), source: errno.into() });
        }
        let mut limits: Vec<LimitInForce> = self.limits.iter().cloned().chain(own_limits(&spec.limits)).collect();
        let mut missing_limits: Vec<&MissingLimit> = self.missing_limits.iter().collect();
        let of_disk = disk.in_force();
        match &of_disk {
            Ok(limit) => limits.push(limit.clone()),
            Err(missing) => missing_limits.push(missing),
        }
        let required = |missing: &&&MissingLimit| spec.required_limits.contains(&missing.limit);
        if let Some(MissingLimit { limit, reason, remedy }) = missing_limits.iter().find(required) {
            return Err(SandboxError::LimitMissing { limit: *limit, reason: reason.clone(), remedy: remedy.clone() });
        }
        let of_limits = missing_limits.iter().map(|missing| Missing {
            name: missing.limit.name().to_owned(),
            reason: missing.reason.clone(),
            remedy: missing.remedy.clone(),
        });
        let of_layers = self.missing_layers.iter().map(|missing| Missing {
            name: missing.layer.name().to_owned(),
            reason: missing.reason.clone(),
            remedy: missing.remedy.clone(),
        });
        let missing = of_limits.chain(of_layers).collect();
        // Whatever was asked for, a run without a network namespace could reach the network.
        let has_own = self.layers.contains(&Layer::NetNamespace);
        let network = if has_own { Network::None } else { Network::Host };
        Ok(Isolation { layers: self.layers.clone(), limits, missing, network })
    }
}

/// The limits that the run loop enforces.
fn own_limits(limits: &Limits) -> [LimitInForce; 2] {
    let own = |limit, max| LimitInForce { limit, max, by: "supervisor".to_owned() };
    [own(LimitKind::Wall, limits.wall_ms_max), own(LimitKind::Log, limits.log_bytes_max)]
}

/// The size of the private `/tmp`, read back; the kernel rounds it up to whole pages of at most 64 KiB.
fn tmp_limit(limits: &Limits, scratch: Option<&OwnedFd>) -> Result<LimitInForce, SandboxError> {
    let wanted = limits.tmp_bytes_max.min(TMP_BYTES_CEILING);
    match scratch.and_then(figures::size_bytes) {
        Some(max) if max >= wanted && max - wanted < 65_536 => {
            Ok(LimitInForce { limit: LimitKind::Tmp, max, by: "tmpfs".to_owned() })
        }
        other => Err(SandboxError::LimitMissing {
            limit: LimitKind::Tmp,
            reason: format!("the private /tmp reads {other:?} bytes after {wanted} were asked for"),
            remedy: "check that tmpfs can be mounted".to_owned(),
        }),
    }
}
