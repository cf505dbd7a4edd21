//! Which layers and limits are in force for one run, and the refusal of a run that lacks a required one: first for
//! those of the supervisor, then for those of the worker.

use crate::cgroup::{self, MissingLimit};
use crate::disk::DiskMonitor;
use crate::ending;
use crate::error::SandboxError;
use crate::layer_plan;
use crate::spec::{Jail, RunSpec};
use crate::worker_protocol::{InitLimits, MissingLayer};
use proctor_core::isolation::{Isolation, Layer, LimitInForce, Missing, Network};
use proctor_core::limits::{LimitKind, Limits};
use std::fs;
use std::os::fd::OwnedFd;

/// Largest size of the private `/tmp`: tmpfs counts pages in a signed long, and no host has a pebibyte of memory.
const TMP_BYTES_CEILING: u64 = 1 << 50;

/// The limits that init enforces itself, and where it finds the others.
pub(crate) fn init_limits(limits: &Limits, is_in_v2: bool) -> InitLimits {
    let tmp_bytes_max = limits.tmp_bytes_max.min(TMP_BYTES_CEILING);
    let host_files_max = fs::read_to_string("/proc/sys/fs/file-max").ok().and_then(|max| max.trim().parse().ok());
    InitLimits {
        tmp_bytes_max,
        tmp_inodes_max: layer_plan::tmp_inodes_max(limits.tmp_bytes_max),
        files_max: layer_plan::files_max(limits.pids_max, host_files_max.unwrap_or(u64::MAX)),
        is_in_v2,
    }
}

/// Layers and limits of a prepared worker, known before there is a run.
#[derive(Debug)]
pub(crate) struct Enforcement {
    layers: Vec<Layer>,
    limits: Vec<LimitInForce>,
    missing_limits: Vec<MissingLimit>,
    missing_layers: Vec<MissingLayer>,
}

impl Enforcement {
    /// Records the layers and limits of the leaf.
    pub(crate) fn from_leaf(has_leaf: bool, limits: Vec<LimitInForce>, missing: Vec<MissingLimit>) -> Self {
        let layers = [Some(Layer::CleanEnvironment), has_leaf.then_some(Layer::Cgroup)];
        let layers = layers.into_iter().flatten().collect();
        Self { layers, limits, missing_limits: missing, missing_layers: Vec::new() }
    }

    /// Fails closed if a required leaf could not be made.
    pub(crate) fn refuse_without_leaf(&self, jail: &Jail) -> Result<(), SandboxError> {
        if self.layers.contains(&Layer::Cgroup) || !jail.required_layers.contains(&Layer::Cgroup) {
            return Ok(());
        }
        let cause = self.missing_limits.first();
        Err(SandboxError::LayerMissing {
            layer: Layer::Cgroup,
            reason: cause.map_or_else(String::new, |missing| missing.reason.clone()),
            remedy: cause.map_or_else(String::new, |missing| missing.remedy.clone()),
        })
    }

    /// Records the layers that the worker reports. Fails closed a second time: a worker that left out a required layer
    /// without reporting it must not get a run.
    pub(crate) fn record_worker_layers(
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
            let cause = missing.iter().find(|missing| missing.layer == layer);
            let reason = cause.map_or("the worker did not install it", |missing| missing.reason.as_str());
            let remedy = cause.map_or("repair the installation", |missing| missing.remedy.as_str());
            return Err(SandboxError::LayerMissing { layer, reason: reason.into(), remedy: remedy.into() });
        }
        self.missing_layers = missing;
        self.limits.push(tmp_limit(limits, scratch)?);
        Ok(())
    }

    /// Whether the write limit is v1's, which does not cover what the kernel writes back.
    pub(crate) fn writes_are_limited_by_v1(&self) -> bool {
        self.limits.iter().any(|limit| limit.limit == LimitKind::Writes && limit.by == cgroup::V1)
    }

    /// Reason and remedy if `layer` is not in force; `None` if it is.
    pub(crate) fn missing_reason(&self, layer: Layer) -> Option<(String, String)> {
        if self.layers.contains(&layer) {
            return None;
        }
        let layer_reason = self.missing_layers.iter().find(|missing| missing.layer == layer);
        let leaf_reason = self.missing_limits.first().map(|missing| (missing.reason.clone(), missing.remedy.clone()));
        layer_reason.map(|missing| (missing.reason.clone(), missing.remedy.clone())).or(leaf_reason)
    }

    /// Everything that is in force for `spec`. Fails closed if a required limit is missing.
    pub(crate) fn isolation(&self, spec: &RunSpec, disk: &DiskMonitor) -> Result<Isolation, SandboxError> {
        if let Some(errno) = disk.exhausted_errno() {
            return Err(SandboxError::HostExhausted {
                operation: "starting the disk monitor".to_owned(),
                source: errno.into(),
            });
        }
        let mut limits: Vec<LimitInForce> = self.limits.iter().cloned().chain(run_loop_limits(&spec.limits)).collect();
        let mut missing_limits: Vec<&MissingLimit> = self.missing_limits.iter().collect();
        let disk_limit = disk.limit_in_force();
        match &disk_limit {
            Ok(limit) => limits.push(limit.clone()),
            Err(missing) => missing_limits.push(missing),
        }
        let required = |missing: &&&MissingLimit| spec.required_limits.contains(&missing.limit);
        if let Some(MissingLimit { limit, reason, remedy }) = missing_limits.iter().find(required) {
            return Err(SandboxError::LimitMissing { limit: *limit, reason: reason.clone(), remedy: remedy.clone() });
        }
        let limit_rows = missing_limits.iter().map(|missing| Missing {
            name: missing.limit.name().to_owned(),
            reason: missing.reason.clone(),
            remedy: missing.remedy.clone(),
        });
        let layer_rows = self.missing_layers.iter().map(|missing| Missing {
            name: missing.layer.name().to_owned(),
            reason: missing.reason.clone(),
            remedy: missing.remedy.clone(),
        });
        let missing = limit_rows.chain(layer_rows).collect();
        // A run without a network namespace can reach the network, whatever was requested.
        let has_own_network = self.layers.contains(&Layer::NetNamespace);
        let network = if has_own_network { Network::None } else { Network::Host };
        Ok(Isolation { layers: self.layers.clone(), limits, missing, network })
    }
}

/// Limits that the run loop enforces.
fn run_loop_limits(limits: &Limits) -> [LimitInForce; 2] {
    let limit = |limit, max| LimitInForce { limit, max, by: "supervisor".to_owned() };
    [limit(LimitKind::Wall, limits.wall_ms_max), limit(LimitKind::Log, limits.log_bytes_max)]
}

/// Limit `tmp` as read back from the private `/tmp`; the kernel rounds it up to whole pages of at most 64 KiB.
fn tmp_limit(limits: &Limits, scratch: Option<&OwnedFd>) -> Result<LimitInForce, SandboxError> {
    let requested = limits.tmp_bytes_max.min(TMP_BYTES_CEILING);
    match scratch.and_then(ending::size_bytes) {
        Some(max) if max >= requested && max - requested < 65_536 => {
            Ok(LimitInForce { limit: LimitKind::Tmp, max, by: "tmpfs".to_owned() })
        }
        other => Err(SandboxError::LimitMissing {
            limit: LimitKind::Tmp,
            reason: format!("the private /tmp reads {other:?} bytes after {requested} were asked for"),
            remedy: "check that tmpfs can be mounted".to_owned(),
        }),
    }
}
