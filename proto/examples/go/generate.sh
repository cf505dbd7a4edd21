#!/bin/sh
# Generates the package proctorv1 from the .proto files with protoc, here that of grpcio-tools, and the plugins that go.mod pins.
# Usage: generate.sh [PYTHON]
set -eu
cd "$(dirname "$0")"
python=${1:-python3}
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN=$bin go install tool
# The .proto files name no Go package, so each is mapped to one here.
for file in ../../proctor/v1/*.proto; do
  mapping="M${file#../../}=proctor.example/client/proctorv1"
  set -- "$@" "--go_opt=$mapping" "--go-grpc_opt=$mapping"
done
[ -z "${1##--*}" ] || shift
PATH=$bin:$PATH "$python" -m grpc_tools.protoc -I../.. --go_out=. --go-grpc_out=. \
  --go_opt=module=proctor.example/client --go-grpc_opt=module=proctor.example/client "$@" ../../proctor/v1/*.proto
