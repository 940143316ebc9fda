/* Preloaded into the ingest process: writes down, in order, every change that it makes to the files below
 * RECORDED_FOLDER, and every sync. A record is appended to RECORDED_LOG with one write:
 *
 *   kind (1 byte) | inode (u64) | number (u64) | length (u64) | length bytes
 *
 *   C created (number: 1 for a folder), name    W written at offset `number`, bytes    T cut to `number` bytes
 *   F file synced    D folder synced, name    R renamed, "old\0new"    L linked, "old\0new"
 *   U unlinked, name    X folder removed, name
 *
 * One lock is held around each call and its record, so the order is the true one. Shared writable maps
 * would go unseen and end the process.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define DESCRIPTORS 65536
enum { NOT_OURS = 0, A_FILE = 1, A_FOLDER = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static size_t folder_length;
static int log_descriptor = -1;
static char kinds[DESCRIPTORS];
static uint64_t inodes[DESCRIPTORS];
static char *names[DESCRIPTORS];

__attribute__((constructor)) static void begin(void) {
  folder = getenv("RECORDED_FOLDER");
  const char *path = getenv("RECORDED_LOG");
  if (folder == NULL || path == NULL) return;
  folder_length = strlen(folder);
  log_descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int is_ours(const char *path) {
  return log_descriptor >= 0 && path != NULL && strncmp(path, folder, folder_length) == 0 &&
         (path[folder_length] == '/' || path[folder_length] == 0);
}

static void record(char kind, uint64_t inode, uint64_t number, const void *bytes, size_t length) {
  char head[25];
  uint64_t size = length;
  head[0] = kind;
  memcpy(head + 1, &inode, 8);
  memcpy(head + 9, &number, 8);
  memcpy(head + 17, &size, 8);
  struct iovec parts[2] = {{head, sizeof head}, {(void *)bytes, length}};
  if (syscall(SYS_writev, log_descriptor, parts, 2) != (long)(sizeof head + length)) abort();
}

static void record_two(char kind, const char *old, const char *new) {
  char both[2 * PATH_MAX];
  size_t length = strlen(old);
  memcpy(both, old, length + 1);
  memcpy(both + length + 1, new, strlen(new));
  record(kind, 0, 0, both, length + 1 + strlen(new));
}

#define REAL(name) \
  static __typeof__(name) *real; \
  if (real == NULL) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define LOCKED pthread_mutex_lock(&lock)
#define UNLOCKED pthread_mutex_unlock(&lock)
#define OURS(descriptor) ((descriptor) >= 0 && (descriptor) < DESCRIPTORS && kinds[descriptor] != NOT_OURS)

static int opened(int at, const char *path, int flags, mode_t mode) {
  if (at != AT_FDCWD && path[0] != '/') return (int)syscall(SYS_openat, at, path, flags, mode);
  if (!is_ours(path)) {
    int other = (int)syscall(SYS_openat, at, path, flags, mode);
    return other;
  }
  LOCKED;
  struct stat before, after;
  int existed = stat(path, &before) == 0;
  int descriptor = (int)syscall(SYS_openat, at, path, flags, mode);
  int error = errno;
  if (descriptor >= 0 && descriptor < DESCRIPTORS && fstat(descriptor, &after) == 0) {
    kinds[descriptor] = S_ISDIR(after.st_mode) ? A_FOLDER : A_FILE;
    inodes[descriptor] = after.st_ino;
    free(names[descriptor]);
    names[descriptor] = strdup(path);
    if (!existed) record('C', after.st_ino, 0, path, strlen(path));
    else if ((flags & O_TRUNC) && before.st_size > 0) record('T', after.st_ino, 0, NULL, 0);
  }
  UNLOCKED;
  errno = error;
  return descriptor;
}

#define MODE \
  mode_t mode = 0; \
  if (flags & (O_CREAT | O_TMPFILE)) { \
    va_list arguments; \
    va_start(arguments, flags); \
    mode = va_arg(arguments, mode_t); \
    va_end(arguments); \
  }

int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int at, const char *path, int flags, ...) { MODE return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE return opened(at, path, flags, mode); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

int close(int descriptor) {
  REAL(close);
  if (!OURS(descriptor)) return real(descriptor);
  LOCKED;
  kinds[descriptor] = NOT_OURS;
  int result = real(descriptor);
  UNLOCKED;
  return result;
}

static off_t place_of(int descriptor) {
  struct stat now;
  if (fcntl(descriptor, F_GETFL) & O_APPEND) return fstat(descriptor, &now) == 0 ? now.st_size : 0;
  return lseek(descriptor, 0, SEEK_CUR);
}

ssize_t write(int descriptor, const void *bytes, size_t length) {
  REAL(write);
  if (!OURS(descriptor)) return real(descriptor, bytes, length);
  LOCKED;
  off_t at = place_of(descriptor);
  ssize_t done = real(descriptor, bytes, length);
  int error = errno;
  if (done > 0) record('W', inodes[descriptor], (uint64_t)at, bytes, (size_t)done);
  UNLOCKED;
  errno = error;
  return done;
}

static ssize_t written_at(int descriptor, const void *bytes, size_t length, off_t at) {
  LOCKED;
  ssize_t done = syscall(SYS_pwrite64, descriptor, bytes, length, at);
  int error = errno;
  if (done > 0 && OURS(descriptor)) record('W', inodes[descriptor], (uint64_t)at, bytes, (size_t)done);
  UNLOCKED;
  errno = error;
  return done;
}

ssize_t pwrite(int d, const void *bytes, size_t length, off_t at) { return written_at(d, bytes, length, at); }
ssize_t pwrite64(int d, const void *bytes, size_t length, off64_t at) { return written_at(d, bytes, length, at); }

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
  REAL(writev);
  if (!OURS(descriptor)) return real(descriptor, parts, count);
  ssize_t total = 0;
  for (int part = 0; part < count; part++) {
    ssize_t done = write(descriptor, parts[part].iov_base, parts[part].iov_len);
    if (done < 0) return total > 0 ? total : done;
    total += done;
    if ((size_t)done < parts[part].iov_len) break;
  }
  return total;
}

/* What the kernel copies is copied by hand, so that its bytes are seen. */
ssize_t sendfile(int out, int in, off_t *offset, size_t count) {
  REAL(sendfile);
  if (!OURS(out)) return real(out, in, offset, count);
  errno = ENOSYS;
  return -1;
}
ssize_t sendfile64(int out, int in, off64_t *offset, size_t count) { return sendfile(out, in, offset, count); }
ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t length, unsigned flags) {
  REAL(copy_file_range);
  if (!OURS(out)) return real(in, from, out, to, length, flags);
  errno = ENOSYS;
  return -1;
}

int ftruncate(int descriptor, off_t size) {
  REAL(ftruncate);
  LOCKED;
  int result = real(descriptor, size);
  if (result == 0 && OURS(descriptor)) record('T', inodes[descriptor], (uint64_t)size, NULL, 0);
  UNLOCKED;
  return result;
}
int ftruncate64(int descriptor, off64_t size) { return ftruncate(descriptor, size); }

static int synced(int descriptor, long call) {
  if (!OURS(descriptor)) return (int)syscall(call, descriptor);
  LOCKED;
  int result = (int)syscall(call, descriptor);
  int error = errno;
  const char *name = names[descriptor];
  if (result == 0 && kinds[descriptor] == A_FOLDER) record('D', inodes[descriptor], 0, name, strlen(name));
  else if (result == 0) record('F', inodes[descriptor], 0, NULL, 0);
  UNLOCKED;
  errno = error;
  return result;
}
int fsync(int descriptor) { return synced(descriptor, SYS_fsync); }
int fdatasync(int descriptor) { return synced(descriptor, SYS_fdatasync); }

#define NAMED(call, kind, path) \
  LOCKED; \
  int result = call; \
  int error = errno; \
  if (result == 0 && is_ours(path)) record(kind, 0, 0, path, strlen(path)); \
  UNLOCKED; \
  errno = error; \
  return result;

int unlink(const char *path) { REAL(unlink); NAMED(real(path), 'U', path) }
int rmdir(const char *path) { REAL(rmdir); NAMED(real(path), 'X', path) }
int remove(const char *path) { NAMED(unlinkat(AT_FDCWD, path, 0), 'U', path) }

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  LOCKED;
  int result = real(path, mode);
  int error = errno;
  if (result == 0 && is_ours(path)) record('C', 0, 1, path, strlen(path));
  UNLOCKED;
  errno = error;
  return result;
}

static int renamed(const char *old, const char *new, char kind, int result) {
  int error = errno;
  if (result == 0 && is_ours(new)) record_two(kind, old, new);
  UNLOCKED;
  errno = error;
  return result;
}
int rename(const char *old, const char *new) { REAL(rename); LOCKED; return renamed(old, new, 'R', real(old, new)); }
int link(const char *old, const char *new) { REAL(link); LOCKED; return renamed(old, new, 'L', real(old, new)); }

void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset) {
  if (OURS(descriptor) && (protection & PROT_WRITE) && (flags & MAP_SHARED)) abort();
  return (void *)syscall(SYS_mmap, address, length, protection, flags, descriptor, offset);
}
void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset) {
  return mmap(address, length, protection, flags, descriptor, offset);
}
