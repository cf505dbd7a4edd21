/* Verdicts, helpers and declarations shared by all attacks. */
#ifndef ATTACK_H
#define ATTACK_H

#include <stddef.h>

/* Exit statuses. UNTRIED (the attack could not be carried out) never counts as held. ABSENT (this kernel lacks the
 * feature) counts as held inside a sandbox and proves nothing outside one. */
enum verdict { ESCAPED = 0, HELD = 1, USAGE = 2, UNTRIED = 3, ABSENT = 4 };

/* Prefix of every secret that the suite places on the host. */
#define CANARY "canary-"

/* Seconds after which an attack ends by itself, even if the process that started it is gone. */
#define LIFETIME_S 20

/* Each prints one line and returns the verdict of its name. */
__attribute__((format(printf, 1, 2))) int escaped(const char *format, ...);
__attribute__((format(printf, 1, 2))) int held(const char *format, ...);
__attribute__((format(printf, 1, 2))) int untried(const char *format, ...);
__attribute__((format(printf, 1, 2))) int absent(const char *format, ...);

/* Derives the verdict from the result of a system call, and from errno if it is negative. `past` is the errno that the
 * call's harmless arguments produce after the permission check has passed, or 0. */
int judge(const char *call, long result, int past);

/* Runs an attack in a child process, so that its effects on the process end with it. */
int in_child(int (*attack)(char **), char **args);

/* Parses `text` as a whole number; exits with UNTRIED if it is none. */
long number(const char *text);

/* Sleeps for the whole time, also if signals interrupt it. */
void sleep_ms(long ms);

/* Writes all bytes; returns -1 and sets errno on failure. */
int write_all(int fd, const void *bytes, size_t length);

/* Declares or defines an attack. `args` holds the arguments that follow its name. */
#define ATTACK(name) int name(char **args)

ATTACK(read_file);
ATTACK(read_below_proc);
ATTACK(read_file_descriptors);
ATTACK(read_environments);
ATTACK(write_file);
ATTACK(make_file);
ATTACK(make_set_id_file);
ATTACK(open_only);
ATTACK(open_block_device);
ATTACK(odd_devices);
ATTACK(leaked_descriptors);
ATTACK(environment);
ATTACK(run_program);
ATTACK(chroot_and_climb);
ATTACK(open_by_handle);
ATTACK(cgroup_limits);
ATTACK(cgroup_procs);
ATTACK(release_agent);
ATTACK(grant_file_capability);

ATTACK(capabilities);
ATTACK(change_owner);
ATTACK(make_device);
ATTACK(become_another);
ATTACK(add_group);
ATTACK(unshare_user);
ATTACK(clone_user);
ATTACK(clone3_user);
ATTACK(unshare_mounts);
ATTACK(mount_file_system);
ATTACK(mount_bind);
ATTACK(remount_writable);
ATTACK(unmount);
ATTACK(pivot);
ATTACK(clone_tree);
ATTACK(open_file_system);
ATTACK(key_add);
ATTACK(key_session);
ATTACK(bpf_map);
ATTACK(bpf_program);
ATTACK(io_uring);
ATTACK(userfault);
ATTACK(open_socket);
ATTACK(call_32_bit);
ATTACK(call_x32);
ATTACK(terminal_input);
ATTACK(console_control);
ATTACK(module_load);
ATTACK(module_load_file);
ATTACK(module_unload);
ATTACK(host_name_set);
ATTACK(share_namespace);
ATTACK(enter_namespace);
ATTACK(asynchronous_io);
ATTACK(watch_mount);
ATTACK(hide_memory);
ATTACK(segment_table);
ATTACK(domain_name_set);
ATTACK(clock_set);
ATTACK(clock_adjust);
ATTACK(perf_event);
ATTACK(kexec);
ATTACK(reboot_machine);
ATTACK(swap_on);
ATTACK(quota);
ATTACK(kernel_log);
ATTACK(change_personality);
ATTACK(real_time);
ATTACK(short_slice);
ATTACK(process_accounting);

ATTACK(see_process);
ATTACK(signal_process);
ATTACK(signal_with_everything);
ATTACK(trace);
ATTACK(read_memory);
ATTACK(write_memory);
ATTACK(open_memory);
ATTACK(steal_descriptor);
ATTACK(connect_unix);
ATTACK(connect_abstract);
ATTACK(connect_tcp);
ATTACK(send_outside);
ATTACK(read_shared_memory);
ATTACK(leave_shared_memory);
ATTACK(remove_shared_memory);
ATTACK(victim);

ATTACK(fork_bomb);
ATTACK(thread_bomb);
ATTACK(fill_heap);
ATTACK(fill_mapping);
ATTACK(fill_memfd);
ATTACK(fill_shared_memory);
ATTACK(fill_file);
ATTACK(make_files);
ATTACK(open_descriptors);
ATTACK(flood_output);
ATTACK(spin);
ATTACK(oversleep);
ATTACK(oversleep_deaf);
ATTACK(oversleep_stopped);
ATTACK(outlive_daemon);
ATTACK(outlive_deaf);
ATTACK(outlive_stopped);
ATTACK(outlive_holding_output);
ATTACK(outlive_by_forking);
ATTACK(dump_core);

ATTACK(attach_filter);
ATTACK(filter_calls);
ATTACK(filter_calls_of_old);
ATTACK(huge_mapping);
ATTACK(huge_segment);
ATTACK(huge_memfd);
ATTACK(dump_core_to_program);
ATTACK(hoard);
ATTACK(take);

#endif
