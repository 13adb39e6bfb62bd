/* Calls of a process that fail when told to, by LD_PRELOAD.

   FAILING_CALLS names a file that is mapped: which call fails, with which error (0: half of the bytes are
   written), how often (-1: for ever), how often it did, and the beginning and the end of the paths. Its layout
   is ORDER in disks.py. Standard input, output and error are left alone. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2 };

struct order {
    volatile int32_t call, error, times, hits;
    char prefix[256], suffix[64];
};

static struct order *order;

__attribute__((constructor)) static void map_order(void) {
    const char *path = getenv("FAILING_CALLS");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct order), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED)
        order = mapped;
    close(fd);
}

static int has_path(int fd) {
    char link[40], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0)
        return 0;
    path[size] = 0;
    size_t prefix = strnlen(order->prefix, sizeof order->prefix);
    size_t suffix = strnlen(order->suffix, sizeof order->suffix);
    return (size_t)size >= prefix + suffix && !strncmp(path, order->prefix, prefix) &&
           !strncmp(path + size - suffix, order->suffix, suffix);
}

/* Return whether this call has to fail, and count it. Threads of a pool may call at the same time. */
static int must_fail(int call, int fd) {
    if (!order || order->call != call || fd <= STDERR_FILENO)
        return 0;
    int before = errno, fails = has_path(fd);
    errno = before;
    if (!fails)
        return 0;
    int left = order->times;
    while (left > 0 && !__sync_bool_compare_and_swap(&order->times, left, left - 1))
        left = order->times;
    if (!left)
        return 0;
    __sync_fetch_and_add(&order->hits, 1);
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define SHORTEN_OR_FAIL(size)        \
    do {                             \
        if (order->error) {          \
            errno = order->error;    \
            return -1;               \
        }                            \
        if ((size) > 1)              \
            (size) = (size) / 2;     \
    } while (0)

ssize_t write(int fd, const void *data, size_t size) {
    static __typeof__(&write) real;
    if (!real)
        real = REAL(write);
    if (must_fail(WRITE, fd))
        SHORTEN_OR_FAIL(size);
    return real(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    static __typeof__(&pwrite) real;
    if (!real)
        real = REAL(pwrite);
    if (must_fail(WRITE, fd))
        SHORTEN_OR_FAIL(size);
    return real(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    static __typeof__(&pwrite64) real;
    if (!real)
        real = REAL(pwrite64);
    if (must_fail(WRITE, fd))
        SHORTEN_OR_FAIL(size);
    return real(fd, data, size, at);
}

/* A vector ends early with half of its buffers, or half of the only one. */
static int shorten(const struct iovec *vectors, int count, struct iovec *only, const struct iovec **result) {
    *result = vectors;
    if (count > 1)
        return count / 2;
    *only = vectors[0];
    if (only->iov_len > 1)
        only->iov_len /= 2;
    *result = only;
    return 1;
}

#define VECTOR_CALL(name, parameters, arguments)                        \
    ssize_t name parameters {                                           \
        static __typeof__(&name) real;                                  \
        struct iovec only;                                              \
        if (!real)                                                      \
            real = REAL(name);                                          \
        if (count > 0 && must_fail(WRITE, fd)) {                        \
            if (order->error) {                                         \
                errno = order->error;                                   \
                return -1;                                              \
            }                                                           \
            count = shorten(vectors, count, &only, &vectors);           \
        }                                                               \
        return real arguments;                                          \
    }

VECTOR_CALL(writev, (int fd, const struct iovec *vectors, int count), (fd, vectors, count))
VECTOR_CALL(pwritev, (int fd, const struct iovec *vectors, int count, off_t at), (fd, vectors, count, at))
VECTOR_CALL(pwritev64, (int fd, const struct iovec *vectors, int count, off64_t at), (fd, vectors, count, at))
VECTOR_CALL(pwritev2, (int fd, const struct iovec *vectors, int count, off_t at, int flags),
            (fd, vectors, count, at, flags))
VECTOR_CALL(pwritev64v2, (int fd, const struct iovec *vectors, int count, off64_t at, int flags),
            (fd, vectors, count, at, flags))

#define SYNC_CALL(name)                       \
    int name(int fd) {                        \
        static __typeof__(&name) real;        \
        if (!real)                            \
            real = REAL(name);                \
        if (must_fail(SYNC, fd)) {            \
            errno = order->error;             \
            return -1;                        \
        }                                     \
        return real(fd);                      \
    }

SYNC_CALL(fsync)
SYNC_CALL(fdatasync)
