//! What all spans and samples of this process are about.

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;

/// The service, its version and its host. Variables of OpenTelemetry can rename the service and add to it.
pub(in crate::telemetry) fn resource() -> Resource {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let builder = Resource::builder().with_attributes([
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("host.name", host),
    ]);
    let is_named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
    if is_named { builder.build() } else { builder.with_service_name("proctor").build() }
}
