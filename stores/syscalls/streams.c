/* Lets the streams of libc write by calls that the shim and the recorder see.
 *
 * libc writes the buffer of a stream by a call that it makes within itself, which no other library
 * can stand in front of. So this library, which LD_PRELOAD loads before the shim and the recorder,
 * makes the streams for writing itself: they read, write, seek and close by the public calls. Only
 * bytes can be written to such a stream, no wide characters.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define NEXT(name) \
    static __typeof__(name) *next; \
    if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static int descriptor(void *cookie) { return (int)(intptr_t)cookie; }

static ssize_t reads(void *cookie, char *data, size_t size) {
    return read(descriptor(cookie), data, size);
}

static ssize_t writes(void *cookie, const char *data, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t n = write(descriptor(cookie), data + done, size - done);
        if (n < 0) break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static int seeks(void *cookie, off64_t *offset, int whence) {
    off64_t found = lseek64(descriptor(cookie), *offset, whence);
    if (found < 0) return -1;
    *offset = found;
    return 0;
}

static int closes(void *cookie) { return close(descriptor(cookie)); }

/* glibc keeps the functions of a stream behind its public part. Those of our streams are the same,
 * and no other stream has them together with a descriptor. */
static const void *ours;

static const void *functions_of(FILE *file) { return *(void **)(file + 1); }

static int is_ours(FILE *file) { return file->_fileno >= 0 && ours && functions_of(file) == ours; }

/* A stream on a descriptor, or NULL; the descriptor stays open then. */
static FILE *stream(int fd, const char *mode) {
    cookie_io_functions_t calls = {reads, writes, seeks, closes};
    FILE *made = fopencookie((void *)(intptr_t)fd, mode, calls);
    if (!made) return NULL;
    made->_fileno = fd; /* for fileno() */
    ours = functions_of(made);
    struct stat s;
    if (!fstat(fd, &s) && s.st_blksize > 0) setvbuf(made, NULL, _IOFBF, (size_t)s.st_blksize);
    return made;
}

/* Whether libc has to make a stream itself: it only reads, or converts characters. */
static int is_left_to_libc(const char *mode) {
    return !strpbrk(mode, "wa+") || strchr(mode, ',');
}

static int flags_of(const char *mode) {
    int flags = strchr(mode, '+') ? O_RDWR : O_WRONLY;
    if (*mode == 'w') flags |= O_CREAT | O_TRUNC;
    if (*mode == 'a') flags |= O_CREAT | O_APPEND;
    if (strchr(mode, 'x')) flags |= O_EXCL;
    if (strchr(mode, 'e')) flags |= O_CLOEXEC;
    return flags;
}

static FILE *opened(int fd, const char *mode) {
    FILE *made = fd < 0 ? NULL : stream(fd, mode);
    if (!made && fd >= 0) close(fd);
    return made;
}

FILE *fopen(const char *path, const char *mode) {
    NEXT(fopen);
    return is_left_to_libc(mode) ? next(path, mode) : opened(open(path, flags_of(mode), 0666), mode);
}

FILE *fopen64(const char *path, const char *mode) {
    NEXT(fopen64);
    if (is_left_to_libc(mode)) return next(path, mode);
    return opened(open64(path, flags_of(mode), 0666), mode);
}

FILE *fdopen(int fd, const char *mode) {
    NEXT(fdopen);
    struct stat s;
    /* libc refuses a mode that the descriptor does not allow. */
    int flags = fcntl(fd, F_GETFL), allowed = flags & O_ACCMODE;
    int wanted = flags_of(mode) & O_ACCMODE;
    if (is_left_to_libc(mode) || flags < 0 || fstat(fd, &s) || !S_ISREG(s.st_mode)
        || (allowed != O_RDWR && allowed != wanted))
        return next(fd, mode);
    if (*mode == 'a' && !(flags & O_APPEND)) fcntl(fd, F_SETFL, flags | O_APPEND);
    return stream(fd, mode);
}

enum { NO_READS = 4, NO_WRITES = 8 }; /* flags of a stream in glibc */

/* libc reopens only the streams that it has made. */
static FILE *reopened(const char *path, const char *mode, FILE *file) {
    int flags = strchr(mode, '+') || *mode != 'r' ? flags_of(mode) : O_RDONLY;
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fileno(file));
    fflush(file);
    int fd = open(path ? path : self, flags, 0666);
    if (fd < 0 || dup3(fd, fileno(file), flags & O_CLOEXEC) < 0) {
        fclose(file);
        file = NULL;
    } else {
        rewind(file);
        int access = flags & O_ACCMODE;
        file->_flags &= ~(NO_READS | NO_WRITES);
        file->_flags |= access == O_RDONLY ? NO_WRITES : access == O_WRONLY ? NO_READS : 0;
    }
    if (fd >= 0) close(fd);
    return file;
}

FILE *freopen(const char *path, const char *mode, FILE *file) {
    NEXT(freopen);
    return is_ours(file) ? reopened(path, mode, file) : next(path, mode, file);
}

FILE *freopen64(const char *path, const char *mode, FILE *file) {
    NEXT(freopen64);
    return is_ours(file) ? reopened(path, mode, file) : next(path, mode, file);
}
