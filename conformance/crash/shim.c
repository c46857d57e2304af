/* Counts the write-like system calls of a process. At the n-th call the shim kills the process, or
 * makes the call fail.
 *
 * LD_PRELOAD loads the shim between the program and libc. The shim counts nothing until it is
 * armed. If STREAMPROOF_SHIM_CONTROL names a file, the state of the shim is in that file, so that
 * another process can arm the shim and read the count. The shim does not see calls that bypass
 * libc, stores into mapped memory, and io_uring: see docs/crash-model.md.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
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
};

static struct control own;
static struct control *control = &own;

__attribute__((constructor)) static void share_control(void) {
    const char *path = getenv("STREAMPROOF_SHIM_CONTROL");
    if (!path) return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *shared = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared != MAP_FAILED) control = shared;
}

void streamproof_arm(long n, long error, long lasting) {
    atomic_store(&control->armed, 0);
    atomic_store(&control->count, 0);
    atomic_store(&control->error, error);
    atomic_store(&control->lasting, lasting);
    atomic_store(&control->armed, n);
}

long streamproof_count(void) { return atomic_load(&control->count); }

/* Counts a call; returns whether the call must fail. */
static int fails(void) {
    long n = atomic_load(&control->armed);
    if (n == 0) return 0;
    long at = atomic_fetch_add(&control->count, 1) + 1;
    if (n < 0 || at < n || (at > n && !atomic_load(&control->lasting))) return 0;
    errno = atomic_load(&control->error);
    if (errno) return 1;
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    for (;;) pause();
}

/* The same for a call on a descriptor. Writes to a pipe or to the standard error do not count: the
 * answers and the messages of a store host go there, and change no file of a store. */
static int fails_on(int fd) {
    struct stat s;
    return atomic_load(&control->armed) && fd > 2 && !fstat(fd, &s) && S_ISREG(s.st_mode) && fails();
}

#define NEXT(name) \
    static __typeof__(name) *next; \
    if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define WRAP(result, name, parameters, arguments) \
    result name parameters { NEXT(name); if (fails()) return -1; return next arguments; }

#define WRITES(name, parameters, arguments) \
    ssize_t name parameters { NEXT(name); if (fails_on(fd)) return -1; return next arguments; }

WRITES(write, (int fd, const void *b, size_t n), (fd, b, n))
WRAP(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
WRAP(ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o))
WRITES(writev, (int fd, const struct iovec *v, int n), (fd, v, n))
WRAP(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t o), (fd, v, n, o))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, fdatasync, (int fd), (fd))
WRAP(int, ftruncate, (int fd, off_t n), (fd, n))
WRAP(int, ftruncate64, (int fd, off64_t n), (fd, n))
WRAP(int, fallocate, (int fd, int m, off_t o, off_t n), (fd, m, o, n))
WRAP(int, rename, (const char *a, const char *b), (a, b))
WRAP(int, renameat, (int d, const char *a, int e, const char *b), (d, a, e, b))
WRAP(int, link, (const char *a, const char *b), (a, b))
WRAP(int, linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f))
WRAP(int, unlink, (const char *a), (a))
WRAP(int, unlinkat, (int d, const char *a, int f), (d, a, f))
WRAP(int, mkdir, (const char *a, mode_t m), (a, m))
WRAP(int, rmdir, (const char *a), (a))

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
