#!/bin/sh
# Runs in a guest with systemd as init: installs the package, uses it, upgrades it with a run in flight, removes it. Each step is
# reported on the second serial port with its status; guest.rs judges them. The directory of this file has old.deb and new.deb.

here=$(dirname "$0")
nonce=$(cat "$here/nonce")
exec > /dev/ttyS1 2>&1 < /dev/null
stty -F /dev/ttyS1 raw -echo

step() {
  printf '\n%s begin %s %s\n' "$nonce" "$(cut -d ' ' -f 1 /proc/uptime)" "$1"
  shift
  "$@"
  printf '\n%s end %s %s\n' "$nonce" "$?" "$(cut -d ' ' -f 1 /proc/uptime)"
}

# Waits until a command succeeds: at most ten minutes, and the time that the command takes.
wait_until() {
  attempts=3000
  until "$@"; do
    attempts=$((attempts - 1))
    [ "$attempts" -gt 0 ] || { echo "waited in vain for: $*" >&2; return 1; }
    sleep 0.2
  done
}

# What a package could leave behind, one thing a line. Left out is what dpkg and systemd write for themselves.
inventory() {
  find / -xdev \( -path /var/lib/dpkg -o -path /var/log -o -path "$here" -o -path /srv \) -prune -o -printf 'file %p\n'
  find /run /dev/shm /tmp -path /run/systemd -prune -o -printf 'file %p\n'
  cut -d ' ' -f 5 /proc/self/mountinfo | sed 's/^/mount /'
  find /sys/fs/cgroup -mindepth 1 -type d -printf 'cgroup %p\n'
  for process in /proc/[0-9]*; do
    # Kernel threads have no program, and this script has a group of its own.
    [ ! -e "$process/exe" ] || grep -q kernel-command-line "$process/cgroup" || sed 's/^/process /' "$process/comm"
  done
  cut -d : -f 1 /etc/passwd /etc/group | sed 's/^/account /'
}

main_pid() { systemctl show --property MainPID --value proctor; }

# Whether the client of `run_tests` leaves now. $1: its file, if it has one.
leaves() { if [ "$1" ]; then [ -e "$1" ]; else grep -q '"id":2' /run/answer; fi; }

# Calls `run_tests` of proctor-mcp as the user `dev`. $1: its arguments as JSON; $2: a file at which the client leaves, instead of
# with its answer.
run_tests() {
  : > /run/answer
  {
    echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"guest","version":"1"}}}'
    echo '{"jsonrpc":"2.0","method":"notifications/initialized"}'
    echo '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_tests","arguments":'"$1"'}}'
    # The end of its input would cancel the call.
    wait_until leaves "${2:-}"
  } | setpriv --reuid dev --regid dev --init-groups \
    proctor-mcp --workspace /srv/proctor/shop --supervisor unix:/run/proctor/proctor.sock > /run/answer
  grep '"id":2' /run/answer
}

# Admits the user `dev`, as the comments of the host file say.
admit() {
  useradd --no-create-home dev && usermod --append --groups proctor dev &&
    mkdir -p /srv/proctor/shop && echo 'exit 0' > /srv/proctor/shop/test.sh && chown -R 1900000000:1900000000 /srv/proctor/shop &&
    sed -i "/^id = /,/^uids/s/^uids = .*/uids = [$(id -u dev)]/" /etc/proctor/proctor.toml &&
    printf '[host]\ndrain = "4m"\n' >> /etc/proctor/proctor.toml &&
    proctor serve --config /etc/proctor/proctor.toml --check && systemctl restart proctor
}

is_active() { proctor admin runs --output json | grep -q '"state":"running"'; }

is_draining() { systemctl show --property StatusText proctor | grep -q draining; }

# The run ends only when the old supervisor drains. How it ended, the audit log says: its client may have lost the supervisor.
upgrade() {
  main_pid > /run/old-pid
  run_tests '{"command":["sh","-c","until [ -e go ]; do sleep 0.2; done; exit 0"]}' /run/upgraded &
  client=$!
  status=1
  if wait_until is_active; then
    dpkg --install "$here/new.deb" &
    dpkg=$!
    wait_until is_draining
    touch /srv/proctor/shop/go
    wait "$dpkg"
    status=$?
  fi
  touch /run/upgraded
  wait "$client" || echo 'the client has no answer'
  [ "$(main_pid)" != "$(cat /run/old-pid)" ] || echo 'the supervisor is still the old one'
  return "$status"
}

remains() {
  rm /run/answer /run/old-pid /run/upgraded
  inventory | sort -u > /run/after
  comm -13 /run/before /run/after | sed '/^file .run.after$/d'
}

insmod "$here/overlay.ko" 2>/dev/null || "$here/busybox" insmod "$here/overlay.ko"
# Backups that useradd and userdel make.
touch /etc/subuid- /etc/subgid-
inventory | sort -u > /run/before
step install dpkg --install "$here/old.deb"
step active systemctl is-active proctor
step enabled systemctl is-enabled proctor
step version proctor --version
step program systemctl show --property ExecStart --value proctor
step socket stat --format '%U %G %a' /run/proctor/proctor.sock
step exposure sh -c 'SYSTEMD_COLORS=0 systemd-analyze security --no-pager proctor | tail -n 1'

step admit admit
step run run_tests '{"command":["sh","test.sh"]}'
step upgrade upgrade
step upgraded dpkg-query --show --showformat '${db:Status-Status} ${Version}' proctor
step run-again run_tests '{"command":["sh","-c","exit 7"]}'
step log journalctl --no-pager --unit proctor --output cat
step audit cat /var/lib/proctor/audit.jsonl
step remove dpkg --remove proctor
step removed dpkg-query --show --showformat '${db:Status-Status}' proctor
step kept find /etc/proctor /var/lib/proctor -maxdepth 1
step gone systemctl is-active proctor
userdel dev
step purge dpkg --purge proctor
step remains remains
systemctl poweroff --force --force
