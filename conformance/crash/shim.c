/* Counts the write-like system calls of a process and kills it before the n-th one.
 *
 * Loaded by LD_PRELOAD, it stands between the program and libc. Nothing is counted until
 * streamproof_arm() is called. Calls that bypass libc, stores into mapped memory, and
 * io_uring are not seen: docs/crash-model.md lists what escapes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long armed;  /* 0: not armed; n > 0: die before call n; -1: only count */
static atomic_long count;

void streamproof_arm(long n) { atomic_store(&count, 0); atomic_store(&armed, n); }
long streamproof_count(void) { return atomic_load(&count); }

static void event(void) {
    long n = atomic_load(&armed);
    if (n == 0) return;
    if (atomic_fetch_add(&count, 1) + 1 == n) {
        syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
        for (;;) pause();
    }
}

#define NEXT(name) \
    static __typeof__(name) *next; \
    if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define WRAP(result, name, parameters, arguments) \
    result name parameters { NEXT(name); event(); return next arguments; }

WRAP(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n))
WRAP(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
WRAP(ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o))
WRAP(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
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
