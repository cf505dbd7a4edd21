//! What is in force for one run, and the refusal of a run that lacks what it requires: once for what the supervisor has put
//! in force, once for what the worker has. Must not put anything in force itself.

use crate::cgroup::MissingLimit;
use crate::disk::Disk;
use crate::error::SandboxError;
use crate::figures;
use crate::message::MissingLayer;
use crate::spec::RunSpec;
use proctor_core::isolation::{Isolation, Layer, LimitInForce, Missing, Network};
use proctor_core::limits::{LimitKind, Limits};
use std::os::fd::OwnedFd;

/// tmpfs counts pages in a signed long; nobody has a pebibyte of memory.
const TMP_BYTES_CEILING: u64 = 1 << 50;

/// The size of the private `/tmp` that the worker is told, bytes.
pub(crate) fn tmp_bytes_max(limits: &Limits) -> u64 {
    limits.tmp_bytes_max.min(TMP_BYTES_CEILING)
}

/// What the supervisor itself has put in force, before the worker tells its part.
#[derive(Debug)]
pub(crate) struct InForce {
    has_leaf: bool,
    limits: Vec<LimitInForce>,
    missing: Vec<MissingLimit>,
}

impl InForce {
    pub(crate) fn new(has_leaf: bool, limits: Vec<LimitInForce>, missing: Vec<MissingLimit>) -> Self {
        Self { has_leaf, limits, missing }
    }

    /// Fails closed on what the leaf could not give.
    pub(crate) fn refuse_without_required(&self, spec: &RunSpec) -> Result<(), SandboxError> {
        let required = |missing: &&MissingLimit| spec.required_limits.contains(&missing.limit);
        if let Some(MissingLimit { limit, reason, remedy }) = self.missing.iter().find(required) {
            return Err(SandboxError::LimitMissing { limit: *limit, reason: reason.clone(), remedy: remedy.clone() });
        }
        if !self.has_leaf && spec.jail.required_layers.contains(&Layer::Cgroup) {
            let why = self.missing.first();
            return Err(SandboxError::LayerMissing {
                layer: Layer::Cgroup,
                reason: why.map_or_else(String::new, |missing| missing.reason.clone()),
                remedy: why.map_or_else(String::new, |missing| missing.remedy.clone()),
            });
        }
        Ok(())
    }

    /// Everything that is in force, once the worker has put on its layers. Fails closed a second time: a worker that
    /// left out a required layer without a word must not get its `Go`.
    pub(crate) fn complete(
        &mut self,
        spec: &RunSpec,
        applied: &[Layer],
        missing: &[MissingLayer],
        scratch: Option<&OwnedFd>,
        disk: &Disk,
    ) -> Result<Isolation, SandboxError> {
        let mut layers = applied.to_vec();
        layers.push(Layer::CleanEnvironment);
        if self.has_leaf {
            layers.push(Layer::Cgroup);
        }
        layers.sort_unstable();
        if let Some(&layer) = spec.jail.required_layers.iter().find(|layer| !layers.contains(layer)) {
            let why = missing.iter().find(|missing| missing.layer == layer);
            let reason = why.map_or("the worker did not put it on", |missing| missing.reason.as_str());
            let remedy = why.map_or("repair the installation", |missing| missing.remedy.as_str());
            return Err(SandboxError::LayerMissing { layer, reason: reason.into(), remedy: remedy.into() });
        }
        let mut limits = std::mem::take(&mut self.limits);
        limits.extend(own_limits(&spec.limits));
        limits.push(tmp_limit(&spec.limits, scratch)?);
        match disk.in_force() {
            Ok(limit) => limits.push(limit),
            Err(MissingLimit { limit, reason, remedy }) if spec.required_limits.contains(&limit) => {
                return Err(SandboxError::LimitMissing { limit, reason, remedy });
            }
            Err(missing) => self.missing.push(missing),
        }
        let of_limits = self.missing.iter().map(|missing| Missing {
            name: missing.limit.name().to_owned(),
            reason: missing.reason.clone(),
            remedy: missing.remedy.clone(),
        });
        let of_layers = missing.iter().map(|missing| Missing {
            name: missing.layer.name().to_owned(),
            reason: missing.reason.clone(),
            remedy: missing.remedy.clone(),
        });
        let missing = of_limits.chain(of_layers).collect();
        // Whatever was asked for, a run without a network namespace could reach the network.
        let network = if layers.contains(&Layer::NetNamespace) { Network::None } else { Network::Host };
        Ok(Isolation { layers, limits, missing, network })
    }
}

/// The limits that the run loop enforces.
fn own_limits(limits: &Limits) -> [LimitInForce; 2] {
    let own = |limit, max| LimitInForce { limit, max, by: "supervisor".to_owned() };
    [own(LimitKind::Wall, limits.wall_ms_max), own(LimitKind::Log, limits.log_bytes_max)]
}

/// The size of the private `/tmp`, read back; the kernel rounds it up to whole pages of at most 64 KiB.
fn tmp_limit(limits: &Limits, scratch: Option<&OwnedFd>) -> Result<LimitInForce, SandboxError> {
    let wanted = tmp_bytes_max(limits);
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
