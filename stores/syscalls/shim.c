/* Counts the write-like system calls of a process. At the n-th call the shim writes down which call
 * that is, and then kills the process, or makes the call fail.
 *
 * LD_PRELOAD loads the shim between the program and libc. The shim counts nothing until it is
 * armed. If STREAMPROOF_SHIM_CONTROL names a file, the state of the shim is in that file, so that
 * another process can arm the shim and read the count. If STREAMPROOF_SHIM_ROOT names a directory,
 * only calls below it that need space count, as on a disk of its own: a full disk still deletes and
 * syncs files. The shim does not see calls that bypass libc, stores into mapped memory, and
 * io_uring: see docs/crash-model.md.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

struct control {
    atomic_long armed;   /* 0: not armed; n > 0: act at call n; -1: only count */
    atomic_long count;   /* calls since the shim was armed */
    atomic_long error;   /* 0: kill the process before call n; else the errno of call n */
    atomic_long lasting; /* whether every call after the n-th fails, too */
    char call[1024];     /* the n-th call: its name, its size or -1, and its files; one a line */
    atomic_long killed;  /* whether the shim has killed the process; arming does not change it */
};

static struct control own;
static struct control *control = &own;
static const char *root;

static int trace_signal; /* is raised at the n-th call, so that a handler can tell its origin */
static __thread volatile int tracing; /* raise() counts as a leaf, and its handler calls us */

void streamproof_share(const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *shared = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared != MAP_FAILED) control = shared;
}

__attribute__((constructor)) static void share_control(void) {
    const char *path = getenv("STREAMPROOF_SHIM_CONTROL");
    if (path) streamproof_share(path);
    root = getenv("STREAMPROOF_SHIM_ROOT");
}

void streamproof_trace(int number) { trace_signal = number; }

void streamproof_arm(long n, long error, long lasting) {
    atomic_store(&control->armed, 0);
    atomic_store(&control->count, 0);
    atomic_store(&control->error, error);
    atomic_store(&control->lasting, lasting);
    atomic_store(&control->armed, n);
}

long streamproof_count(void) { return atomic_load(&control->count); }

struct call {
    const char *name;
    long size; /* the bytes that it writes, or the new size; -1 for neither */
    const char *file, *second;
};

static void write_down(struct call call) {
    const char *second = call.second ? call.second : "";
    snprintf(control->call, sizeof control->call, "%s\n%ld\n%s\n%s", call.name, call.size,
             call.file, second);
    tracing = 1;
    if (trace_signal) raise(trace_signal);
    tracing = 0;
}

/* Whether a call needs space below the root. */
static int needs_space(struct call call) {
    static const char *const others[] = {"fsync", "fdatasync", "ftruncate", "truncate", "rename",
                                         "unlink", "rmdir"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(call.name, others[i])) return 0;
    size_t length = strlen(root);
    return !strncmp(call.file, root, length) && call.file[length] == '/';
}

/* Counts a call; returns whether the call must fail. */
static int fails(struct call call) {
    long n = atomic_load(&control->armed);
    if (n == 0 || tracing || (root && !needs_space(call))) return 0;
    long at = atomic_fetch_add(&control->count, 1) + 1;
    if (n < 0 || at < n || (at > n && !atomic_load(&control->lasting))) return 0;
    if (at == n) write_down(call);
    errno = (int)atomic_load(&control->error);
    if (errno) return 1;
    atomic_store(&control->killed, 1);
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    for (;;) pause();
}

static int fails_on(const char *name, int fd, long size) {
    if (!atomic_load(&control->armed)) return 0;
    char link[64], file[1024];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, file, sizeof file - 1);
    file[length < 0 ? 0 : length] = 0;
    return fails((struct call){name, size, file, NULL});
}

/* Writes to a pipe or to the standard error do not count: the answers and the messages of a store
 * host go there, and change no file of a store. */
static int write_fails(const char *name, int fd, long size) {
    struct stat s;
    return atomic_load(&control->armed) && fd > 2 && !fstat(fd, &s) && S_ISREG(s.st_mode)
        && fails_on(name, fd, size);
}

static int fails_at(const char *name, const char *file, const char *second) {
    return fails((struct call){name, -1, file, second});
}

static long bytes_of(const struct iovec *parts, int count) {
    long size = 0;
    for (int i = 0; i < count; i++) size += (long)parts[i].iov_len;
    return size;
}

#define NEXT(name) \
    static __typeof__(name) *next; \
    if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define WRAP(result, name, parameters, arguments, failing) \
    result name parameters { NEXT(name); if (failing) return -1; return next arguments; }

WRAP(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n),
     write_fails("write", fd, (long)n))
WRAP(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o),
     fails_on("pwrite", fd, (long)n))
WRAP(ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o),
     fails_on("pwrite", fd, (long)n))
WRAP(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n),
     write_fails("writev", fd, bytes_of(v, n)))
WRAP(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t o), (fd, v, n, o),
     fails_on("pwritev", fd, bytes_of(v, n)))
WRAP(int, fsync, (int fd), (fd), fails_on("fsync", fd, -1))
WRAP(int, fdatasync, (int fd), (fd), fails_on("fdatasync", fd, -1))
WRAP(int, ftruncate, (int fd, off_t n), (fd, n), fails_on("ftruncate", fd, n))
WRAP(int, ftruncate64, (int fd, off64_t n), (fd, n), fails_on("ftruncate", fd, n))
WRAP(int, fallocate, (int fd, int m, off_t o, off_t n), (fd, m, o, n),
     fails_on("fallocate", fd, o + n))
WRAP(int, rename, (const char *a, const char *b), (a, b), fails_at("rename", a, b))
WRAP(int, renameat, (int d, const char *a, int e, const char *b), (d, a, e, b),
     fails_at("rename", a, b))
WRAP(int, link, (const char *a, const char *b), (a, b), fails_at("link", a, b))
WRAP(int, linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f),
     fails_at("link", a, b))
WRAP(int, unlink, (const char *a), (a), fails_at("unlink", a, NULL))
WRAP(int, unlinkat, (int d, const char *a, int f), (d, a, f), fails_at("unlink", a, NULL))
WRAP(int, mkdir, (const char *a, mode_t m), (a, m), fails_at("mkdir", a, NULL))
WRAP(int, rmdir, (const char *a), (a), fails_at("rmdir", a, NULL))
WRAP(ssize_t, pwritev64, (int fd, const struct iovec *v, int n, off64_t o), (fd, v, n, o),
     fails_on("pwritev", fd, bytes_of(v, n)))
WRAP(ssize_t, pwritev2, (int fd, const struct iovec *v, int n, off_t o, int f), (fd, v, n, o, f),
     write_fails("pwritev2", fd, bytes_of(v, n)))
WRAP(ssize_t, pwritev64v2, (int fd, const struct iovec *v, int n, off64_t o, int f),
     (fd, v, n, o, f), write_fails("pwritev2", fd, bytes_of(v, n)))
WRAP(ssize_t, sendfile, (int fd, int from, off_t *o, size_t n), (fd, from, o, n),
     write_fails("sendfile", fd, -1))
WRAP(ssize_t, sendfile64, (int fd, int from, off64_t *o, size_t n), (fd, from, o, n),
     write_fails("sendfile", fd, -1))
WRAP(ssize_t, copy_file_range,
     (int from, off64_t *p, int fd, off64_t *o, size_t n, unsigned f), (from, p, fd, o, n, f),
     write_fails("copy_file_range", fd, -1))
WRAP(int, truncate, (const char *a, off_t n), (a, n), fails_at("truncate", a, NULL))
WRAP(int, truncate64, (const char *a, off64_t n), (a, n), fails_at("truncate", a, NULL))
WRAP(int, renameat2, (int d, const char *a, int e, const char *b, unsigned f), (d, a, e, b, f),
     fails_at("rename", a, b))
WRAP(int, symlink, (const char *a, const char *b), (a, b), fails_at("symlink", b, NULL))
WRAP(int, symlinkat, (const char *a, int d, const char *b), (a, d, b), fails_at("symlink", b, NULL))
WRAP(int, mkdirat, (int d, const char *a, mode_t m), (d, a, m), fails_at("mkdir", a, NULL))
WRAP(int, remove, (const char *a), (a), fails_at("unlink", a, NULL))

/* An opening changes a file only if it makes a regular one, or empties one. */
static int open_fails(int at, const char *path, int flags) {
    struct stat s;
    if (!atomic_load(&control->armed) || !(flags & (O_CREAT | O_TRUNC))) return 0;
    int changes = flags & O_CREAT;
    /* Emptying a file needs no space. */
    if (!fstatat(at, path, &s, 0))
        changes = !root && flags & O_TRUNC && S_ISREG(s.st_mode) && s.st_size;
    return changes && fails_at("open", path, NULL);
}

#define OPEN(name, parameters, at, arguments) \
    int name parameters { \
        NEXT(name); \
        mode_t mode = 0; \
        if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        if (open_fails(at, path, flags)) return -1; \
        return next arguments; \
    }

OPEN(open, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPEN(openat, (int at, const char *path, int flags, ...), at, (at, path, flags, mode))
OPEN(openat64, (int at, const char *path, int flags, ...), at, (at, path, flags, mode))
WRAP(int, creat, (const char *path, mode_t mode), (path, mode),
     open_fails(AT_FDCWD, path, O_CREAT | O_TRUNC))
WRAP(int, creat64, (const char *path, mode_t mode), (path, mode),
     open_fails(AT_FDCWD, path, O_CREAT | O_TRUNC))

/* A full disk must also report no free space: a program may ask before it tries again. */
static int full(void) {
    long n = atomic_load(&control->armed);
    return n > 0 && atomic_load(&control->count) >= n && atomic_load(&control->lasting)
        && atomic_load(&control->error) == ENOSPC;
}

#define FREE_SPACE(name, buffer, first, given) \
    int name(first, struct buffer *s) { \
        NEXT(name); \
        int result = next(given, s); \
        if (!result && full()) s->f_bfree = s->f_bavail = 0; \
        return result; \
    }

FREE_SPACE(statvfs, statvfs, const char *path, path)
FREE_SPACE(statvfs64, statvfs64, const char *path, path)
FREE_SPACE(fstatvfs, statvfs, int fd, fd)
FREE_SPACE(fstatvfs64, statvfs64, int fd, fd)
