// Records which counters of `-C instrument-coverage` each test of a Rust program executed. It is linked into the programs of
// the workspace (`rustc_wrapper.sh`), and `execution_records.rs` and `program_map.rs` say what it writes.
//
// A program with libtest's harness writes a line before each test and after it. `write` is defined here, so that each such
// line ends one record and begins the next; counters are cleared between. A process of nextest runs one test and has one
// record. A program without any has one record for the whole process.
//
// No descriptor stays open between records, no thread is started, and errno is left as it was.

#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// The profile runtime of LLVM, which rustc links with whatever is instrumented.
__attribute__((weak)) uint64_t *__llvm_profile_begin_counters(void);
__attribute__((weak)) uint64_t *__llvm_profile_end_counters(void);
__attribute__((weak)) const char *__llvm_profile_begin_data(void);
__attribute__((weak)) const char *__llvm_profile_end_data(void);
__attribute__((weak)) uint64_t __llvm_profile_get_num_data(const void *, const void *);
__attribute__((weak)) void __llvm_profile_set_filename(const char *);

// `atexit` is in a static part of glibc, which a linker may have passed when it comes to this file.
int __cxa_atexit(void (*)(void *), void *, void *);

#define NAME_BYTES_MAX 4096
#define MAGIC "proctor-rust-map 1"
#define RECORDS_MIB 16
#define SECTION_MIB 32
#define RECORDS_BYTES_MAX (RECORDS_MIB * 1024L * 1024L)
#define SECTION_BYTES_MAX (SECTION_MIB * 1024L * 1024L)
// Both sections and the list of functions, which has less for each function than they have.
#define MAP_BYTES_MAX (3 * SECTION_BYTES_MAX)
#define PATH_BYTES_MAX 4096
#define HEAD_BYTES 38

enum { REAPED_CHILD = 1, OVERLAPS = 2, IGNORED = 4 };

static struct {
	int is_active;
	int busy;
	pid_t pid;
	uint64_t began;
	uint64_t record_began;
	struct rusage children;
	char kind; // 'O' outside of tests, 'T' a test
	char flags;
	int has_lost; // whether a record could not be written
	int is_open; // whether the test of the record has no result yet
	unsigned name_bytes;
	char name[NAME_BYTES_MAX];
	char records[PATH_BYTES_MAX];
} state;

static long call_write(int file, const void *bytes, size_t len) { return syscall(SYS_write, file, bytes, len); }

static uint64_t now(void) {
	struct timespec time = {0, 0};
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int write_all(int file, const void *bytes, size_t len) {
	const char *at = bytes;
	while (len > 0) {
		long written = call_write(file, at, len);
		if (written < 0 && errno == EINTR) continue;
		if (written <= 0) return -1;
		at += written;
		len -= (size_t)written;
	}
	return 0;
}

static unsigned char *put(unsigned char *at, uint64_t value, unsigned bytes) {
	for (unsigned byte = 0; byte < bytes; byte++) *at++ = (unsigned char)(value >> (8 * byte));
	return at;
}

static unsigned char *put_varint(unsigned char *at, uint64_t value) {
	for (; value >= 0x80; value >>= 7) *at++ = (unsigned char)(value | 0x80);
	*at++ = (unsigned char)value;
	return at;
}

static int has_reaped_child(void) {
	struct rusage usage;
	if (getrusage(RUSAGE_CHILDREN, &usage) != 0) return 0;
	int changed = memcmp(&usage, &state.children, sizeof usage) != 0;
	state.children = usage;
	return changed;
}

// Whether the process may write files of this size: beyond its limit the kernel would end it with SIGXFSZ.
static int may_write(long bytes) {
	struct rlimit limit;
	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= (rlim_t)bytes);
}

// Appends the record that ends now, and clears the counters.
static void end_record(void) {
	if (__atomic_exchange_n(&state.busy, 1, __ATOMIC_ACQUIRE)) return;
	int error = errno;
	uint64_t *begin = __llvm_profile_begin_counters(), *end = __llvm_profile_end_counters();
	uint64_t ended = now();
	int is_own = getpid() == state.pid && end > begin, is_written = 0;
	if (is_own && may_write(RECORDS_BYTES_MAX)) {
		size_t counters = (size_t)(end - begin);
		// One write for each record, since processes append to the same file. Only touched pages take memory.
		size_t size = 4 + HEAD_BYTES + state.name_bytes + 20 * counters;
		unsigned char *buffer = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (buffer != MAP_FAILED) {
			unsigned char *at = buffer + 4;
			*at++ = (unsigned char)state.kind;
			*at++ = (unsigned char)(state.flags | (has_reaped_child() ? REAPED_CHILD : 0));
			at = put(at, (uint64_t)state.pid, 4);
			at = put(at, (uint64_t)getppid(), 4);
			at = put(at, state.began, 8);
			at = put(at, state.record_began, 8);
			at = put(at, ended, 8);
			at = put(at, state.name_bytes, 4);
			memcpy(at, state.name, state.name_bytes);
			at += state.name_bytes;
			uint64_t last = 0;
			for (size_t number = 0; number < counters; number++) {
				uint64_t count = begin[number];
				if (count == 0) continue;
				at = put_varint(at, number + 1 - last);
				at = put_varint(at, count);
				last = number + 1;
				begin[number] = 0;
			}
			put(buffer, (uint64_t)(at - buffer - 4), 4);
			int file = open(state.records, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
			if (file >= 0) {
				long size_now = lseek(file, 0, SEEK_END);
				int fits = size_now >= 0 && size_now + (at - buffer) <= RECORDS_BYTES_MAX;
				if ((!fits || state.has_lost) && size_now <= RECORDS_BYTES_MAX) {
					// A length that no record has says that one is missing.
					unsigned char sign[4];
					put(sign, UINT32_MAX, 4);
					is_written = write_all(file, sign, sizeof sign) == 0 && !fits;
					state.has_lost = 0;
				}
				if (fits) is_written = write_all(file, buffer, (size_t)(at - buffer)) == 0;
				close(file);
			}
			munmap(buffer, size);
		}
	}
	if (is_own && !is_written) state.has_lost = 1;
	state.record_began = ended;
	errno = error;
	__atomic_store_n(&state.busy, 0, __ATOMIC_RELEASE);
}

static void begin_test(const char *name, size_t bytes) {
	int overlaps = state.is_open;
	if (overlaps) state.flags |= OVERLAPS;
	end_record();
	state.kind = 'T';
	state.flags = overlaps ? OVERLAPS : 0;
	state.is_open = 1;
	state.name_bytes = bytes > NAME_BYTES_MAX ? 0 : (unsigned)bytes;
	memcpy(state.name, name, state.name_bytes);
}

static void end_tests(void) {
	if (state.kind != 'T') return;
	end_record();
	state.kind = 'O';
	state.flags = 0;
	state.is_open = 0;
	state.name_bytes = 0;
}

static const char *skip(const char *at, const char *end, const char *text) {
	size_t len = strlen(text);
	return (size_t)(end - at) >= len && memcmp(at, text, len) == 0 ? at + len : NULL;
}

// Reads what libtest writes with `--format=json`.
static void read_harness_lines(const char *at, const char *end) {
	static const char form[] = "{ \"type\": \"";
	while ((at = memmem(at, (size_t)(end - at), form, sizeof form - 1)) != NULL) {
		at += sizeof form - 1;
		const char *name = skip(at, end, "test\", \"event\": \"started\", \"name\": \"");
		if (name != NULL) {
			const char *quote = name;
			while (quote < end && *quote != '"') quote += *quote == '\\' && quote + 1 < end ? 2 : 1;
			begin_test(name, (size_t)((quote < end ? quote : end) - name));
		} else if ((name = skip(at, end, "test\", \"name\": \"")) != NULL) {
			state.is_open = 0;
			size_t bytes = state.name_bytes;
			if ((size_t)(end - name) > bytes && memcmp(name, state.name, bytes) == 0 &&
			    skip(name + bytes, end, "\", \"event\": \"ignored\"") != NULL)
				state.flags |= IGNORED;
		} else if (skip(at, end, "suite\", \"event\": \"") != NULL) {
			end_tests();
		}
	}
}

__attribute__((visibility("default"))) ssize_t write(int file, const void *bytes, size_t len) {
	if (file == 1 && state.is_active && len >= 32) read_harness_lines(bytes, (const char *)bytes + len);
	return call_write(file, bytes, len);
}

static void at_exit(void *unused) {
	(void)unused;
	end_record();
}

static int write_section(int file, const char *image, size_t size, const char *wanted) {
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
	uint64_t found = 0, len = 0;
	if (size >= sizeof *head && head->e_shoff < size && (size - head->e_shoff) / sizeof(Elf64_Shdr) >= head->e_shnum &&
	    head->e_shstrndx < head->e_shnum) {
		const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + head->e_shoff);
		uint64_t names = sections[head->e_shstrndx].sh_offset;
		for (unsigned number = 0; number < head->e_shnum; number++) {
			const Elf64_Shdr *section = &sections[number];
			uint64_t name = names + section->sh_name;
			if (name >= size || strncmp(image + name, wanted, size - name) != 0) continue;
			if (section->sh_offset > size || section->sh_size > size - section->sh_offset) continue;
			found = section->sh_offset, len = section->sh_size;
		}
	}
	if (len > SECTION_BYTES_MAX) len = 0;
	unsigned char prefix[8];
	put(prefix, len, 8);
	return write_all(file, prefix, sizeof prefix) == 0 && write_all(file, image + found, (size_t)len) == 0 ? 0 : -1;
}

// Writes for each function its hashes, the number of its first counter, and how many it has.
static int write_functions(int file) {
	const char *begin = __llvm_profile_begin_data(), *end = __llvm_profile_end_data();
	const char *counters = (const char *)__llvm_profile_begin_counters();
	uint64_t functions = end > begin ? __llvm_profile_get_num_data(begin, end) : 0;
	uint64_t stride = functions > 0 ? (uint64_t)(end - begin) / functions : 0;
	// The number of counters follows four addresses and hashes until LLVM 17, and one more of bitmaps since.
	unsigned count_at = stride == 48 ? 40 : 48;
	int is_known = functions == 0 || stride == 48 || stride == 64;
	unsigned char buffer[24 * 128];
	put(buffer, is_known ? functions : UINT64_MAX, 8);
	if (!is_known) functions = 0;
	if (write_all(file, buffer, 8) != 0) return -1;
	unsigned char *at = buffer;
	for (uint64_t number = 0; number < functions; number++) {
		const char *entry = begin + number * stride;
		uint64_t relative;
		memcpy(&relative, entry + 16, 8);
		uint32_t count;
		memcpy(&count, entry + count_at, 4);
		memcpy(at, entry, 16);
		at = put(at + 16, ((uint64_t)(uintptr_t)entry + relative - (uint64_t)(uintptr_t)counters) / 8, 4);
		at = put(at, count, 4);
		if (at == buffer + sizeof buffer || number + 1 == functions) {
			if (write_all(file, buffer, (size_t)(at - buffer)) != 0) return -1;
			at = buffer;
		}
	}
	return 0;
}

static int write_text(int file, const char *text, size_t len) {
	unsigned char prefix[8];
	put(prefix, len, 8);
	return write_all(file, prefix, sizeof prefix) == 0 && write_all(file, text, len) == 0 ? 0 : -1;
}

// Writes what the counters of this program mean, once for all its processes.
static void write_map(const char *path, const char *program) {
	int map = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (map < 0) return;
	char target[4096], origin[PATH_BYTES_MAX + 16];
	long target_len = 0;
	int is_whole = 0;
	size_t len = strlen(program);
	memcpy(origin, program, len);
	memcpy(origin + len, ".proctor", 9);
	int file = open(origin, O_RDONLY | O_CLOEXEC);
	if (file >= 0) {
		target_len = read(file, target, sizeof target);
		close(file);
	}
	file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	long end = file < 0 ? 0 : lseek(file, 0, SEEK_END);
	if (end > 0) {
		size_t size = (size_t)end;
		char *image = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
		if (image != MAP_FAILED) {
			is_whole = write_all(map, MAGIC "\n", sizeof MAGIC) == 0 &&
			           write_text(map, target, target_len > 0 ? (size_t)target_len : 0) == 0 && write_functions(map) == 0 &&
			           write_section(map, image, size, "__llvm_covmap") == 0 &&
			           write_section(map, image, size, "__llvm_covfun") == 0;
			munmap(image, size);
		}
	}
	if (file >= 0) close(file);
	close(map);
	// Else the next process of the program writes it.
	if (!is_whole) unlink(path);
}

// The test that a process of nextest runs; false for a listing.
static int read_arguments(int is_nextest) {
	static char arguments[64 * 1024];
	int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	if (file < 0) return 0;
	long len = read(file, arguments, sizeof arguments - 1);
	close(file);
	if (len <= 0) return 0;
	arguments[len] = 0;
	int is_exact = 0;
	const char *name = NULL;
	for (char *at = arguments + strlen(arguments) + 1; at < arguments + len; at += strlen(at) + 1) {
		if (strcmp(at, "--list") == 0) return 0;
		if (strcmp(at, "--exact") == 0) is_exact = 1;
		if (*at != '-' && name == NULL) name = at;
	}
	size_t bytes = name == NULL ? 0 : strlen(name);
	if (is_nextest && is_exact && bytes > 0 && bytes <= NAME_BYTES_MAX) {
		state.kind = 'N';
		state.name_bytes = (unsigned)bytes;
		memcpy(state.name, name, bytes);
	}
	return 1;
}

__attribute__((constructor)) static void start(void) {
	int error = errno;
	const char *directory = getenv("PROCTOR_COVERAGE");
	char program[PATH_BYTES_MAX];
	// The runtime writes a file of its own at the end, else into the current directory.
	if (__llvm_profile_set_filename != NULL) __llvm_profile_set_filename("/dev/null");
	if (directory == NULL || *directory != '/' || strlen(directory) > 256 || __llvm_profile_begin_counters == NULL ||
	    __llvm_profile_end_counters == NULL || __llvm_profile_begin_data == NULL || __llvm_profile_end_data == NULL ||
	    __llvm_profile_get_num_data == NULL) {
		errno = error;
		return;
	}
	state.kind = 'O';
	long len = readlink("/proc/self/exe", program, sizeof program - 1);
	if (len > 0 && may_write(MAP_BYTES_MAX) && read_arguments(getenv("NEXTEST") != NULL)) {
		program[len] = 0;
		uint64_t hash = 0xcbf29ce484222325u;
		for (long at = 0; at < len; at++) hash = (hash ^ (unsigned char)program[at]) * 0x100000001b3u;
		char *at = stpcpy(state.records, directory);
		*at++ = '/';
		for (int shift = 60; shift >= 0; shift -= 4) *at++ = "0123456789abcdef"[hash >> shift & 15];
		char map[PATH_BYTES_MAX];
		*at = 0;
		stpcpy(stpcpy(map, state.records), ".map");
		stpcpy(at, ".records");
		state.pid = getpid();
		state.began = state.record_began = now();
		write_map(map, program);
		has_reaped_child();
		state.is_active = __cxa_atexit(at_exit, NULL, NULL) == 0;
	}
	errno = error;
}
