#!/guest/busybox sh
# First process of the guest: mounts what systemd mounts on a stock Debian, runs the commands appended to this file,
# reports the start and end of each on the second serial port, and powers off.

b=/guest/busybox
$b mount -t proc -o nosuid,nodev,noexec proc /proc
$b mount -t sysfs -o nosuid,nodev,noexec sysfs /sys
$b mount -t devtmpfs devtmpfs /dev
$b mkdir -p /dev/pts /dev/shm /dev/mqueue /dev/hugepages
$b mount -t devpts -o nosuid,noexec,gid=5,mode=620,ptmxmode=666 devpts /dev/pts
$b mount -t tmpfs -o nosuid,nodev tmpfs /dev/shm
$b mount -t tmpfs -o nosuid,nodev,mode=755 tmpfs /run
# Files that were copied from below the host's /tmp stay at their paths.
$b mkdir -p /run/host-tmp
$b mount --bind /tmp /run/host-tmp
$b mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs /tmp
for copied in /run/host-tmp/*; do
    [ -d "$copied" ] || continue
    $b mkdir -p "/tmp/${copied##*/}"
    $b mount --bind "$copied" "/tmp/${copied##*/}"
done
$b mount -t mqueue -o nosuid,nodev,noexec mqueue /dev/mqueue
$b mount -t hugetlbfs hugetlbfs /dev/hugepages
$b mount -t securityfs -o nosuid,nodev,noexec securityfs /sys/kernel/security
$b mount -t debugfs -o nosuid,nodev,noexec debugfs /sys/kernel/debug
$b mount -t tracefs -o nosuid,nodev,noexec tracefs /sys/kernel/tracing
$b mount -t bpf -o nosuid,nodev,noexec,mode=700 bpf /sys/fs/bpf
$b mount -t cgroup2 -o nosuid,nodev,noexec,nsdelegate,memory_recursiveprot cgroup2 /sys/fs/cgroup
for link in fd:fd stdin:fd/0 stdout:fd/1 stderr:fd/2; do $b ln -sf "/proc/self/${link#*:}" "/dev/${link%:*}"; done
$b mount --make-rshared /
for controller in $($b cat /sys/fs/cgroup/cgroup.controllers); do
  echo "+$controller" > /sys/fs/cgroup/cgroup.subtree_control
done
for link in hardlinks:1 symlinks:1 regular:2 fifos:1; do echo "${link#*:}" > "/proc/sys/fs/protected_${link%:*}"; done
$b insmod /guest/overlay.ko # there is no on-demand module loading here
$b ip link set lo up
$b hostname guest
$b stty -F /dev/ttyS1 raw -echo

seconds() { $b cut -d ' ' -f 1 /proc/uptime; }

# Runs a command as root in a clean environment, with its start and end reported.
run() {
  printf '\n%s begin %s command\n' "$nonce" "$(seconds)" > /dev/ttyS1
  (cd / && exec $b env -i "PATH=$path" HOME=/root LANG=C.UTF-8 "$@") < /dev/null > /dev/ttyS1 2>&1
  printf '\n%s end %s %s\n' "$nonce" "$?" "$(seconds)" > /dev/ttyS1
}

path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
