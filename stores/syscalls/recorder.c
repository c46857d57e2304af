/* Records the calls by which a process changes files, in order and over all threads.
 *
 * LD_PRELOAD loads the recorder between the program and libc. Until it is armed, the recorder only
 * loads one variable at each call. Once armed, it holds a lock while it makes a call and writes it
 * down, so the order in the log is the order on the disk.
 *
 * The recorder keeps no state about files. It names files and directories by their inodes, which it
 * looks up at each call, so dup, fork and chdir cannot confuse it. A failed call changes nothing
 * and is not recorded. A comparison of the log with the directory at the end finds writes that
 * escaped the recorder: see docs/crash-model.md.
 *
 * If STREAMPROOF_RECORD names a log and a directory, one a line, the recorder records the process
 * from its start. A store host writes to the log of its client in this way, so every writer locks
 * the log.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind {
    CREATE = 'c', /* a new file; without a name for O_TMPFILE */
    RESIZE = 't', /* length is the new size */
    WRITE = 'w',  /* length bytes follow; other is how they were written */
    ZERO = 'z',   /* length bytes from offset become zeros; the size does not change */
    SYNC = 's',   /* of a file or directory; with a length, of these bytes of a mapped file */
    SYNC_ALL = 'a',
    RENAME = 'r',
    EXCHANGE = 'e',
    LINK = 'l',
    SYMLINK = 'y', /* the second name is the target */
    UNLINK = 'u',
    MKDIR = 'd',
    MARK = 'm',   /* of an operation; length is the number of calls that the shim has counted */
    ESCAPE = 'x' /* the name is the call after which writes to a file are not recorded */
};

enum way { PLAIN, SYNCHRONOUS, MAPPED }; /* how bytes are written; O_DSYNC is synchronous */

struct record {
    int64_t kind, inode, directory, other, offset, length, name, second;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int armed; /* the recorded process; 0 for none */
static int log_fd = -1;
static dev_t device;

static void look_at_mapped_files(void);

static void take(void) {
    pthread_mutex_lock(&lock);
    syscall(SYS_flock, log_fd, LOCK_EX);
    look_at_mapped_files();
}

static void release(void) {
    syscall(SYS_flock, log_fd, LOCK_UN);
    pthread_mutex_unlock(&lock);
}

static __thread int is_done; /* the thread that ends the recording makes its last calls freely */

static int on(void) {
    if (is_done) return 0;
    int pid = atomic_load_explicit(&armed, memory_order_relaxed);
    return pid && pid == (int)syscall(SYS_getpid);
}

static void put(struct record r, const char *name, const char *second, const void *data) {
    r.name = (int64_t)strlen(name);
    r.second = (int64_t)strlen(second);
    struct iovec parts[] = {{&r, sizeof r},
                            {(void *)name, (size_t)r.name},
                            {(void *)second, (size_t)r.second},
                            {(void *)data, data ? (size_t)r.length : 0}};
    size_t size = 0;
    for (int i = 0; i < 4; i++) size += parts[i].iov_len;
    /* A reader would take a gap in the log for a time without any call, so the process must end. */
    if (syscall(SYS_writev, log_fd, parts, 4) != (long)size) abort();
}

/* Whether a descriptor is a file or a directory on the watched device. */
static int watched(int fd, struct stat *s) {
    return fstat(fd, s) == 0 && s->st_dev == device && (S_ISREG(s->st_mode) || S_ISDIR(s->st_mode));
}

/* The directory of a path, and the last name in it; whether the directory is on the device. */
static int locate(int at, const char *path, ino_t *directory, char name[256]) {
    char parent[4096];
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    if (length == 0 || length >= sizeof parent) return 0;
    size_t start = length;
    while (start > 0 && path[start - 1] != '/') start--;
    if (length - start == 0 || length - start > 255) return 0;
    memcpy(name, path + start, length - start);
    name[length - start] = 0;
    memcpy(parent, path, start);
    parent[start] = 0;
    struct stat s;
    if (fstatat(at, start ? parent : ".", &s, 0) || s.st_dev != device) return 0;
    *directory = s.st_ino;
    return 1;
}

/* Mapped files. A store into mapped memory is no call. So before each call the recorder compares
 * the mapped files with what the log says of them, and writes down the sectors that differ. */

enum { PAGE = 4096, SECTOR = 512, MOST_MAPPED = 16 << 20 };

struct mapped_file {
    struct mapped_file *next;
    ino_t inode;
    int fd; /* never closed: that would release the POSIX locks of the program on the file */
    off_t size;
    char *known, *found; /* MOST_MAPPED bytes each, of which only the used pages cost memory */
};

static struct mapped_file *mapped_files;

static void wrote_into_memory(struct mapped_file *file, off_t start, off_t end) {
    struct record r = {.kind = WRITE, .inode = (int64_t)file->inode, .other = MAPPED,
                       .offset = start, .length = end - start};
    put(r, "", "", file->found + start);
}

/* Reads a file; returns its size, or -1 if it is too large or cannot be read. */
static off_t read_mapped(struct mapped_file *file) {
    struct stat s;
    if (fstat(file->fd, &s) || s.st_size > MOST_MAPPED) return -1;
    off_t size = 0;
    for (ssize_t n = 1; n > 0 && size < s.st_size; size += n) {
        n = pread(file->fd, file->found + size, (size_t)(s.st_size - size), size);
        if (n < 0) return -1;
    }
    return size;
}

static void look_at(struct mapped_file *file) {
    off_t size = read_mapped(file);
    if (size < 0) return; /* the comparison at the end finds it */
    if (size > file->size) memset(file->known + file->size, 0, (size_t)(size - file->size));
    file->size = size;
    for (off_t page = 0; page < size; page += PAGE) {
        off_t start = -1, end = -1;
        for (off_t at = page; at < page + PAGE && at < size; at += SECTOR) {
            size_t length = size - at < SECTOR ? (size_t)(size - at) : SECTOR;
            if (!memcmp(file->known + at, file->found + at, length)) continue;
            if (start < 0) start = at;
            end = at + (off_t)length;
        }
        if (start < 0) continue;
        wrote_into_memory(file, start, end);
        memcpy(file->known + start, file->found + start, (size_t)(end - start));
    }
}

static void look_at_mapped_files(void) {
    int error = errno;
    for (struct mapped_file *file = mapped_files; file; file = file->next) look_at(file);
    errno = error;
}

/* What a call writes to a mapped file is in the log already. */
static void known_by_call(ino_t inode, const char *data, off_t offset, size_t n) {
    for (struct mapped_file *file = mapped_files; file; file = file->next) {
        off_t end = offset + (off_t)n;
        if (file->inode != inode || end > MOST_MAPPED) continue;
        if (offset > file->size)
            memset(file->known + file->size, 0, (size_t)(offset - file->size));
        memcpy(file->known + offset, data, n);
        if (end > file->size) file->size = end;
    }
}

/* API, called through ctypes. */

int streamproof_record(const char *log, const char *root) {
    struct stat s;
    if (stat(root, &s)) return errno;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    device = s.st_dev;
    log_fd = fd;
    atomic_store(&armed, (int)getpid());
    return 0;
}

void streamproof_mark(long number, long returned, long counted) {
    take();
    put((struct record){.kind = MARK, .offset = number, .other = returned, .length = counted},
        "", "", NULL);
    release();
}

/* Takes the lock for good. Every other thread and process waits before its next call, until it is
 * killed: none is between making a call and writing it down, and none makes one more. */
void streamproof_freeze(void) {
    take();
    is_done = 1;
}

__attribute__((constructor)) static void record_from_the_start(void) {
    const char *given = getenv("STREAMPROOF_RECORD"), *root = given ? strchr(given, '\n') : NULL;
    char log[4096];
    if (!root || (size_t)(root - given) >= sizeof log) return;
    memcpy(log, given, (size_t)(root - given));
    log[root - given] = 0;
    streamproof_record(log, root + 1);
}

#define NEXT(name) \
    static __typeof__(name) *next; \
    if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* Makes a call, and lets `note` write it down if `result >= 0`. Keeps the errno of the call. */
#define WRAP(type, name, parameters, arguments, note) \
    type name parameters { \
        NEXT(name); \
        if (!on()) return next arguments; \
        take(); \
        type result = next arguments; \
        int error = errno; \
        if (result >= 0) note; \
        release(); \
        errno = error; \
        return result; \
    }

/* Data. */

static int is_synchronous(int fd) { return (fcntl(fd, F_GETFL) & O_DSYNC) != 0; }

static void wrote(int fd, const struct iovec *parts, int count, ssize_t n, off_t offset) {
    struct stat s;
    if (n <= 0 || !watched(fd, &s)) return;
    /* A write without an offset was at the file's position, which is after the data now. */
    if (offset < 0) offset = lseek(fd, 0, SEEK_CUR) - n;
    else if (fcntl(fd, F_GETFL) & O_APPEND) offset = s.st_size - n;
    char *data = malloc((size_t)n);
    if (!data) abort();
    size_t at = 0;
    for (int i = 0; i < count && at < (size_t)n; i++) {
        size_t size = parts[i].iov_len < (size_t)n - at ? parts[i].iov_len : (size_t)n - at;
        memcpy(data + at, parts[i].iov_base, size);
        at += size;
    }
    struct record r = {.kind = WRITE, .inode = (int64_t)s.st_ino, .offset = offset, .length = n,
                       .other = is_synchronous(fd) ? SYNCHRONOUS : PLAIN};
    put(r, "", "", data);
    known_by_call(s.st_ino, data, offset, (size_t)n);
    free(data);
}

/* Writes down data that the kernel itself copied into a file, read back from the file. */
static void copied(int fd, ssize_t n, off_t offset) {
    struct stat s;
    if (n <= 0 || !watched(fd, &s)) return;
    if (offset < 0) offset = lseek(fd, 0, SEEK_CUR) - n;
    char path[64], *data = malloc((size_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (data && again >= 0 && pread(again, data, (size_t)n, offset) == n) {
        struct iovec part = {data, (size_t)n};
        wrote(fd, &part, 1, n, offset);
    }
    if (again >= 0) close(again);
    free(data);
}

#define ONE(b, n) &(struct iovec){(void *)(b), (n)}, 1

WRAP(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n), wrote(fd, ONE(b, n), result, -1))
WRAP(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o),
     wrote(fd, ONE(b, n), result, o))
WRAP(ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o),
     wrote(fd, ONE(b, n), result, o))
WRAP(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n),
     wrote(fd, v, n, result, -1))
WRAP(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t o), (fd, v, n, o),
     wrote(fd, v, n, result, o))
WRAP(ssize_t, pwritev64, (int fd, const struct iovec *v, int n, off64_t o), (fd, v, n, o),
     wrote(fd, v, n, result, o))
WRAP(ssize_t, pwritev2, (int fd, const struct iovec *v, int n, off_t o, int f), (fd, v, n, o, f),
     wrote(fd, v, n, result, o))
WRAP(ssize_t, pwritev64v2, (int fd, const struct iovec *v, int n, off64_t o, int f),
     (fd, v, n, o, f), wrote(fd, v, n, result, o))
WRAP(ssize_t, sendfile, (int fd, int from, off_t *o, size_t n), (fd, from, o, n),
     copied(fd, result, -1))
WRAP(ssize_t, sendfile64, (int fd, int from, off64_t *o, size_t n), (fd, from, o, n),
     copied(fd, result, -1))
WRAP(ssize_t, copy_file_range,
     (int from, off64_t *p, int fd, off64_t *o, size_t n, unsigned f), (from, p, fd, o, n, f),
     copied(fd, result, o ? *o - result : -1))

static void resized(int fd) {
    struct stat s;
    if (watched(fd, &s))
        put((struct record){.kind = RESIZE, .inode = (int64_t)s.st_ino, .length = s.st_size},
            "", "", NULL);
}

static void resized_path(const char *path) {
    struct stat s;
    if (stat(path, &s) == 0 && s.st_dev == device)
        put((struct record){.kind = RESIZE, .inode = (int64_t)s.st_ino, .length = s.st_size},
            "", "", NULL);
}

static void allocated(int fd, int mode, off_t offset, off_t length) {
    struct stat s;
    if (!watched(fd, &s)) return;
    struct record r = {.inode = (int64_t)s.st_ino, .offset = offset, .length = length};
    if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) {
        r.kind = ZERO;
        put(r, "", "", NULL);
    } else if (mode & ~FALLOC_FL_KEEP_SIZE) {
        r.kind = ESCAPE;
        put(r, "fallocate", "", NULL);
    }
    if (!(mode & FALLOC_FL_KEEP_SIZE)) resized(fd);
}

WRAP(int, ftruncate, (int fd, off_t n), (fd, n), resized(fd))
WRAP(int, ftruncate64, (int fd, off64_t n), (fd, n), resized(fd))
WRAP(int, truncate, (const char *p, off_t n), (p, n), resized_path(p))
WRAP(int, truncate64, (const char *p, off64_t n), (p, n), resized_path(p))
WRAP(int, fallocate, (int fd, int m, off_t o, off_t n), (fd, m, o, n), allocated(fd, m, o, n))
WRAP(int, fallocate64, (int fd, int m, off64_t o, off64_t n), (fd, m, o, n), allocated(fd, m, o, n))
/* These two return an error number, and 0 for success. */
WRAP(int, posix_fallocate, (int fd, off_t o, off_t n), (fd, o, n), if (!result) resized(fd))
WRAP(int, posix_fallocate64, (int fd, off64_t o, off64_t n), (fd, o, n), if (!result) resized(fd))

/* Syncs. */

static void synced(int fd) {
    struct stat s;
    if (watched(fd, &s))
        put((struct record){.kind = SYNC, .inode = (int64_t)s.st_ino}, "", "", NULL);
}

static void synced_all(int fd) {
    struct stat s;
    if (fd < 0 || (fstat(fd, &s) == 0 && s.st_dev == device))
        put((struct record){.kind = SYNC_ALL}, "", "", NULL);
}

WRAP(int, fsync, (int fd), (fd), synced(fd))
WRAP(int, fdatasync, (int fd), (fd), synced(fd))
WRAP(int, syncfs, (int fd), (fd), synced_all(fd))

void sync(void) {
    NEXT(sync);
    if (!on()) {
        next();
        return;
    }
    take();
    next();
    synced_all(-1);
    release();
}

/* Names. */

static void named(enum kind kind, int at, const char *path, const char *second) {
    struct stat s = {0};
    struct record r = {.kind = kind};
    ino_t directory;
    char name[256];
    if (!locate(at, path, &directory, name)) return;
    r.directory = (int64_t)directory;
    if (kind != UNLINK && fstatat(at, path, &s, AT_SYMLINK_NOFOLLOW) == 0)
        r.inode = (int64_t)s.st_ino;
    put(r, name, second, NULL);
}

static void renamed(int at, const char *from, int to_at, const char *to, unsigned flags) {
    struct record r = {.kind = flags & RENAME_EXCHANGE ? EXCHANGE : RENAME};
    struct stat s;
    ino_t directory = 0, other = 0;
    char name[256] = "", second[256] = "";
    int known = locate(at, from, &directory, name), lands = locate(to_at, to, &other, second);
    if (!known && !lands) return;
    r.directory = (int64_t)directory;
    r.other = (int64_t)other;
    if (fstatat(to_at, to, &s, AT_SYMLINK_NOFOLLOW) == 0) r.inode = (int64_t)s.st_ino;
    put(r, name, second, NULL);
}

WRAP(int, rename, (const char *a, const char *b), (a, b), renamed(AT_FDCWD, a, AT_FDCWD, b, 0))
WRAP(int, renameat, (int d, const char *a, int e, const char *b), (d, a, e, b),
     renamed(d, a, e, b, 0))
WRAP(int, renameat2, (int d, const char *a, int e, const char *b, unsigned f), (d, a, e, b, f),
     renamed(d, a, e, b, f))
WRAP(int, link, (const char *a, const char *b), (a, b), named(LINK, AT_FDCWD, b, ""))
WRAP(int, linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f),
     named(LINK, e, b, ""))
WRAP(int, symlink, (const char *a, const char *b), (a, b), named(SYMLINK, AT_FDCWD, b, a))
WRAP(int, symlinkat, (const char *a, int d, const char *b), (a, d, b), named(SYMLINK, d, b, a))
WRAP(int, unlink, (const char *a), (a), named(UNLINK, AT_FDCWD, a, ""))
WRAP(int, unlinkat, (int d, const char *a, int f), (d, a, f), named(UNLINK, d, a, ""))
WRAP(int, remove, (const char *a), (a), named(UNLINK, AT_FDCWD, a, ""))
WRAP(int, rmdir, (const char *a), (a), named(UNLINK, AT_FDCWD, a, ""))
WRAP(int, mkdir, (const char *a, mode_t m), (a, m), named(MKDIR, AT_FDCWD, a, ""))
WRAP(int, mkdirat, (int d, const char *a, mode_t m), (d, a, m), named(MKDIR, d, a, ""))

/* Opening. */

static void opened(int fd, int at, const char *path, int flags, int existed) {
    struct stat s;
    ino_t directory;
    char name[256];
    if (!watched(fd, &s) || !S_ISREG(s.st_mode)) return;
    struct record r = {.kind = CREATE, .inode = (int64_t)s.st_ino};
    if ((flags & O_TMPFILE) == O_TMPFILE) {
        put(r, "", "", NULL);
    } else if (!existed && locate(at, path, &directory, name)) {
        r.directory = (int64_t)directory;
        put(r, name, "", NULL);
    } else if (flags & O_TRUNC) {
        resized(fd);
    }
}

/* Only these flags change anything. Whether the call will make a file must be known beforehand. */
static int changes(int flags) { return flags & (O_CREAT | O_TRUNC) || (flags & O_TMPFILE) == O_TMPFILE; }

static int exists(int at, const char *path) {
    struct stat s;
    return fstatat(at, path, &s, 0) == 0;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

#define OPENED(at, path, flags, call) \
    if (!changes(flags) || !on()) return call; \
    take(); \
    int existed = exists(at, path), result = call, error = errno; \
    if (result >= 0) opened(result, at, path, flags, existed); \
    release(); \
    errno = error; \
    return result

int open(const char *path, int flags, ...) {
    NEXT(open);
    MODE(flags);
    OPENED(AT_FDCWD, path, flags, next(path, flags, mode));
}

int open64(const char *path, int flags, ...) {
    NEXT(open64);
    MODE(flags);
    OPENED(AT_FDCWD, path, flags, next(path, flags, mode));
}

int openat(int at, const char *path, int flags, ...) {
    NEXT(openat);
    MODE(flags);
    OPENED(at, path, flags, next(at, path, flags, mode));
}

int openat64(int at, const char *path, int flags, ...) {
    NEXT(openat64);
    MODE(flags);
    OPENED(at, path, flags, next(at, path, flags, mode));
}

int creat(const char *path, mode_t mode) {
    NEXT(creat);
    OPENED(AT_FDCWD, path, O_CREAT | O_TRUNC, next(path, mode));
}

int creat64(const char *path, mode_t mode) {
    NEXT(creat64);
    OPENED(AT_FDCWD, path, O_CREAT | O_TRUNC, next(path, mode));
}

/* Mapping. */

/* A part of memory that is a file; the newest one at an address counts. */
struct mapping {
    struct mapping *next;
    char *start;
    size_t length;
    off_t offset;
    ino_t inode;
};

static struct mapping *mappings;

static char *room(void) {
    void *found = (void *)syscall(SYS_mmap, NULL, MOST_MAPPED, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return found == MAP_FAILED ? NULL : found;
}

/* Whether the recorder can read a mapped file from now on. */
static int follows(int fd, ino_t inode) {
    for (struct mapped_file *file = mapped_files; file; file = file->next)
        if (file->inode == inode) return 1;
    struct mapped_file *file = calloc(1, sizeof *file);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!file || !(file->known = room()) || !(file->found = room())) return 0;
    file->inode = inode;
    file->fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (file->fd < 0 || (file->size = read_mapped(file)) < 0) return 0;
    memcpy(file->known, file->found, (size_t)file->size);
    file->next = mapped_files;
    mapped_files = file;
    return 1;
}

static void mapped(char *start, size_t length, int fd, off_t offset) {
    struct stat s;
    if (!watched(fd, &s)) return;
    if (!follows(fd, s.st_ino))
        put((struct record){.kind = ESCAPE, .inode = (int64_t)s.st_ino}, "mmap", "", NULL);
    struct mapping *made = malloc(sizeof *made);
    if (!made) abort();
    *made = (struct mapping){mappings, start, length, offset, s.st_ino};
    mappings = made;
}

#define MAPS(name, offset_type) \
    void *name(void *a, size_t n, int p, int f, int fd, offset_type o) { \
        NEXT(name); \
        if (fd < 0 || !(p & PROT_WRITE) || !(f & MAP_SHARED) || !on()) return next(a, n, p, f, fd, o); \
        take(); \
        void *result = next(a, n, p, f, fd, o); \
        int error = errno; \
        if (result != MAP_FAILED) mapped(result, n, fd, o); \
        release(); \
        errno = error; \
        return result; \
    }

MAPS(mmap, off_t)
MAPS(mmap64, off64_t)

static void synced_mapping(char *start, size_t length, int flags) {
    struct mapping *each = mappings;
    while (each && (start < each->start || start >= each->start + each->length)) each = each->next;
    if (!each || !(flags & MS_SYNC)) return;
    put((struct record){.kind = SYNC, .inode = (int64_t)each->inode, .length = (int64_t)length,
                        .offset = each->offset + (start - each->start)}, "", "", NULL);
}

WRAP(int, msync, (void *a, size_t n, int f), (a, n, f), synced_mapping(a, n, f))
