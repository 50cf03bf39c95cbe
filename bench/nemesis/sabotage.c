/* Preloaded into a node: fsync fails and the wall clock is off, as a shared file says.
 *
 * The file holds two 64-bit numbers: the shift of the wall clock in milliseconds, and whether
 * fsync fails. Monotonic time is left alone, as by an operator who sets the clock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *control;
static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_gettimeofday)(struct timeval *, void *);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);

__attribute__((constructor)) static void attach(void) {
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_gettimeofday = dlsym(RTLD_NEXT, "gettimeofday");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    const char *path = getenv("NEMESIS_CONTROL");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, 16, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) control = found;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!real_clock_gettime) real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int done = real_clock_gettime(clock, now);
    if (done == 0 && control && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t shift_ms = control[0];
        now->tv_sec += shift_ms / 1000;
    }
    return done;
}

int gettimeofday(struct timeval *now, void *zone) {
    if (!real_gettimeofday) real_gettimeofday = dlsym(RTLD_NEXT, "gettimeofday");
    int done = real_gettimeofday(now, zone);
    if (done == 0 && control) now->tv_sec += control[0] / 1000;
    return done;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

static int refuse(void) {
    errno = EIO;
    return -1;
}

int fsync(int file) {
    return control && control[1] ? refuse() : real_fsync(file);
}

int fdatasync(int file) {
    return control && control[1] ? refuse() : real_fdatasync(file);
}
