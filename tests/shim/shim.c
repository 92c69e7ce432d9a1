/* Numbers what a process does to the files below one folder, fails or kills it there, and writes a journal.

   Preloaded by LD_PRELOAD, and told by environment variables, which are read at the start and by `shim_begin`:

   SHIM_FOLDER   the folder, an absolute path without links
   SHIM_JOURNAL  another folder on the same file system: `count` (8 bytes: operations of all processes up to now), `log`
                 (a line for each operation: number, name, path), and what a loss of power needs (below)
   SHIM_AT       the number of the operation at which something happens; 0: nothing happens
   SHIM_FAULT    what happens: `EIO` (it fails), `ENOSPC` (it fails, and so does all that needs space afterwards), or
                 `KILL` (the process is killed before it, and every other process at its next operation)

   Numbered are: open for writing, write, writev, pwrite, sendfile, copy_file_range, fwrite, fsync, fdatasync, ftruncate,
   truncate, rename, unlink, mkdir, rmdir, link, symlink and chmod, in all their forms. Writes through mmap are not
   numbered; data that a file has from them is lost like other data.

   The journal has what `power.py` needs to undo what was not synchronised:

   data.INODE    content of a file at its last fsync
   names.INODE   entries of a folder at its last fsync: lines of inode, `d` or `f`, and name
   kept.INODE    a link to a file that lost a name, so that it can get it back
*/
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NO, YES };
static char folder[PATH_MAX], journal[PATH_MAX];
static size_t length;
static long at, *count;
static int fault, kills, active;

#define REAL(name) ((typeof(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

/* System calls, which this library does not intercept. */
static int sys_open(const char *path, int flags) { return syscall(SYS_openat, AT_FDCWD, path, flags, 0666); }
static void put(int file, const char *from, size_t size) {
    while (size > 0) {
        long done = syscall(SYS_write, file, from, size);
        if (done <= 0) abort();
        from += done, size -= done;
    }
}

__attribute__((constructor)) void shim_begin(void) {
    const char *where = getenv("SHIM_FOLDER");
    char path[PATH_MAX + 8];
    active = where != NULL;
    if (!active) return;
    const char *number = getenv("SHIM_AT"), *what = getenv("SHIM_FAULT");
    length = snprintf(folder, sizeof folder, "%s", where);
    snprintf(journal, sizeof journal, "%s", getenv("SHIM_JOURNAL"));
    at = number ? atol(number) : 0;
    kills = what && !strcmp(what, "KILL");
    fault = what && !strcmp(what, "EIO") ? EIO : ENOSPC;
    snprintf(path, sizeof path, "%s/count", journal);
    int file = sys_open(path, O_RDWR | O_CREAT | O_CLOEXEC);
    if (file < 0 || syscall(SYS_ftruncate, file, sizeof *count)) abort();
    count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
}

/* The path of a file by a folder's descriptor and a name; whether it is the folder of SHIM_FOLDER or below it. */
static int below(int start, const char *name, char *path) {
    char link[64], base[PATH_MAX];
    if (!active || name == NULL) return NO;
    if (name[0] == '/') snprintf(path, PATH_MAX, "%s", name);
    else {
        if (start == AT_FDCWD) { if (syscall(SYS_getcwd, base, sizeof base) < 0) return NO; }
        else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", start);
            long size = syscall(SYS_readlinkat, AT_FDCWD, link, base, sizeof base - 1);
            if (size < 0) return NO;
            base[size] = 0;
        }
        if (name[0]) snprintf(path, PATH_MAX, "%.2000s/%.2000s", base, name);
        else snprintf(path, PATH_MAX, "%s", base);
    }
    return !strncmp(path, folder, length) && (path[length] == '/' || path[length] == 0);
}
static int file_below(int file, char *path) {
    struct stat facts;
    return active && !fstat(file, &facts) && (S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode)) &&
           below(file, "", path);
}

/* Number an operation. Whether it goes on; otherwise errno is set. */
static int goes_on(const char *name, const char *path, int needs_space) {
    char line[PATH_MAX + 64], log[PATH_MAX + 8];
    long number = __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
    if (at && kills && number >= at) syscall(SYS_kill, getpid(), SIGKILL);
    int fails = at && !kills && (number == at || (fault == ENOSPC && number > at));
    if (fails && fault == ENOSPC && !needs_space) fails = NO;
    snprintf(log, sizeof log, "%s/log", journal);
    int file = sys_open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC);
    put(file, line, snprintf(line, sizeof line, "%ld\t%s%s\t%s\n", number, fails ? "!" : "", name, path));
    syscall(SYS_close, file);
    if (fails) errno = fault;
    return !fails;
}

/* Keep what a file or a folder has at this moment as what is on the disk. */
static void keep_synchronised(int file) {
    char path[PATH_MAX + 96], ready[PATH_MAX + 64], self[64], buffer[65536];
    struct stat facts;
    fstat(file, &facts);
    int is_folder = S_ISDIR(facts.st_mode);
    snprintf(ready, sizeof ready, "%s/%s.%lu", journal, is_folder ? "names" : "data", (unsigned long)facts.st_ino);
    snprintf(path, sizeof path, "%s.%ld", ready, (long)syscall(SYS_gettid));
    snprintf(self, sizeof self, "/proc/self/fd/%d", file);
    int to = sys_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
    if (is_folder) {
        DIR *entries = opendir(self);
        struct dirent *each;
        while ((each = readdir(entries)) != NULL) {
            if (!strcmp(each->d_name, ".") || !strcmp(each->d_name, "..")) continue;
            const char kind = each->d_type == DT_DIR ? 'd' : 'f';
            put(to, buffer, snprintf(buffer, sizeof buffer, "%lu %c %s\n", (unsigned long)each->d_ino, kind, each->d_name));
        }
        closedir(entries);
    } else {
        int from = sys_open(self, O_RDONLY | O_CLOEXEC);
        for (long size; (size = syscall(SYS_read, from, buffer, sizeof buffer)) > 0;) put(to, buffer, size);
        syscall(SYS_close, from);
    }
    syscall(SYS_close, to);
    syscall(SYS_renameat, AT_FDCWD, path, AT_FDCWD, ready);
}

/* A file or folder will lose a name: keep its inode from being used for another. */
static void keep_inode(int start, const char *name) {
    char kept[PATH_MAX + 64];
    struct stat facts;
    if (fstatat(start, name, &facts, AT_SYMLINK_NOFOLLOW)) return;
    if (S_ISDIR(facts.st_mode)) { syscall(SYS_openat, start, name, O_RDONLY | O_CLOEXEC, 0); return; }
    snprintf(kept, sizeof kept, "%s/kept.%lu", journal, (unsigned long)facts.st_ino);
    syscall(SYS_linkat, start, name, AT_FDCWD, kept, 0);
}

/* Open. */
static int opens(int start, const char *name, int flags) {
    char path[PATH_MAX];
    struct stat facts;
    if (!(flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) || (flags & O_TMPFILE) == O_TMPFILE) return YES;
    return !below(start, name, path) || goes_on("open", path, (flags & O_CREAT) && fstatat(start, name, &facts, 0));
}
#define MODE va_list more; va_start(more, flags); int mode = va_arg(more, int); va_end(more)
#define OPEN(name) int name(const char *path, int flags, ...) { MODE; \
    return opens(AT_FDCWD, path, flags) ? REAL(name)(path, flags, mode) : -1; }
#define OPENAT(name) int name(int start, const char *path, int flags, ...) { MODE; \
    return opens(start, path, flags) ? REAL(name)(start, path, flags, mode) : -1; }
#define CREAT(name) int name(const char *path, mode_t mode) { \
    return opens(AT_FDCWD, path, O_CREAT | O_TRUNC | O_WRONLY) ? REAL(name)(path, mode) : -1; }
#define FOPEN(name) FILE *name(const char *path, const char *mode) { \
    int flags = mode[0] == 'r' ? (strchr(mode, '+') ? O_RDWR : 0) : O_CREAT | O_WRONLY; \
    return opens(AT_FDCWD, path, flags) ? REAL(name)(path, mode) : NULL; }
OPEN(open) OPEN(open64) OPENAT(openat) OPENAT(openat64) CREAT(creat) CREAT(creat64) FOPEN(fopen) FOPEN(fopen64)

/* Operations on open files. */
static int does(int file, const char *name, int needs_space) {
    char path[PATH_MAX];
    return !file_below(file, path) || goes_on(name, path, needs_space);
}
#define ON_FILE(kind, name, space, arguments, call) kind name arguments { \
    return does(file, #name, space) ? REAL(name) call : -1; }
ON_FILE(ssize_t, write, YES, (int file, const void *from, size_t size), (file, from, size))
ON_FILE(ssize_t, writev, YES, (int file, const struct iovec *from, int number), (file, from, number))
ON_FILE(ssize_t, pwrite, YES, (int file, const void *from, size_t size, off_t place), (file, from, size, place))
ON_FILE(ssize_t, pwrite64, YES, (int file, const void *from, size_t size, off64_t place), (file, from, size, place))
ON_FILE(ssize_t, sendfile, YES, (int file, int from, off_t *place, size_t size), (file, from, place, size))
ON_FILE(ssize_t, sendfile64, YES, (int file, int from, off64_t *place, size_t size), (file, from, place, size))
ON_FILE(int, ftruncate, NO, (int file, off_t size), (file, size))
ON_FILE(int, ftruncate64, NO, (int file, off64_t size), (file, size))
ON_FILE(int, fchmod, NO, (int file, mode_t mode), (file, mode))
ssize_t copy_file_range(int from, off64_t *place, int file, off64_t *to, size_t size, unsigned flags) {
    return does(file, "copy_file_range", YES) ? REAL(copy_file_range)(from, place, file, to, size, flags) : -1;
}
size_t fwrite(const void *from, size_t size, size_t number, FILE *file) {
    char path[PATH_MAX];
    if (!file_below(fileno(file), path)) return REAL(fwrite)(from, size, number, file);
    if (!goes_on("fwrite", path, YES)) return 0;
    size_t done = REAL(fwrite)(from, size, number, file);
    fflush(file); /* glibc writes by itself, and not by the functions above */
    return done;
}
static int synchronises(int file, const char *name) {
    char path[PATH_MAX];
    if (!file_below(file, path)) return YES;
    if (!goes_on(name, path, YES)) return NO;
    keep_synchronised(file);
    return YES;
}
int fsync(int file) { return synchronises(file, "fsync") ? REAL(fsync)(file) : -1; }
int fdatasync(int file) { return synchronises(file, "fdatasync") ? REAL(fdatasync)(file) : -1; }

/* Operations on names. */
static int names(int start, const char *name, const char *operation, int needs_space) {
    char path[PATH_MAX];
    return !below(start, name, path) || goes_on(operation, path, needs_space);
}
static int removes(int start, const char *name, const char *operation) {
    char path[PATH_MAX];
    if (!below(start, name, path)) return YES;
    if (!goes_on(operation, path, NO)) return NO;
    keep_inode(start, name);
    return YES;
}
static int renames(int from, const char *old, int to, const char *new) {
    char path[PATH_MAX];
    if (!below(from, old, path) && !below(to, new, path)) return YES;
    if (!goes_on("rename", path, YES)) return NO;
    keep_inode(to, new);
    return YES;
}
int unlink(const char *path) { return removes(AT_FDCWD, path, "unlink") ? REAL(unlink)(path) : -1; }
int rmdir(const char *path) { return removes(AT_FDCWD, path, "rmdir") ? REAL(rmdir)(path) : -1; }
int remove(const char *path) { return removes(AT_FDCWD, path, "remove") ? REAL(remove)(path) : -1; }
int unlinkat(int start, const char *path, int flags) {
    return removes(start, path, flags & AT_REMOVEDIR ? "rmdir" : "unlink") ? REAL(unlinkat)(start, path, flags) : -1;
}
int rename(const char *old, const char *new) {
    return renames(AT_FDCWD, old, AT_FDCWD, new) ? REAL(rename)(old, new) : -1;
}
int renameat(int from, const char *old, int to, const char *new) {
    return renames(from, old, to, new) ? REAL(renameat)(from, old, to, new) : -1;
}
int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    return renames(from, old, to, new) ? REAL(renameat2)(from, old, to, new, flags) : -1;
}
int mkdir(const char *path, mode_t mode) {
    return names(AT_FDCWD, path, "mkdir", YES) ? REAL(mkdir)(path, mode) : -1;
}
int mkdirat(int start, const char *path, mode_t mode) {
    return names(start, path, "mkdir", YES) ? REAL(mkdirat)(start, path, mode) : -1;
}
int link(const char *old, const char *new) { return names(AT_FDCWD, new, "link", YES) ? REAL(link)(old, new) : -1; }
int linkat(int from, const char *old, int to, const char *new, int flags) {
    return names(to, new, "link", YES) ? REAL(linkat)(from, old, to, new, flags) : -1;
}
int symlink(const char *old, const char *new) {
    return names(AT_FDCWD, new, "symlink", YES) ? REAL(symlink)(old, new) : -1;
}
int symlinkat(const char *old, int to, const char *new) {
    return names(to, new, "symlink", YES) ? REAL(symlinkat)(old, to, new) : -1;
}
int chmod(const char *path, mode_t mode) {
    return names(AT_FDCWD, path, "chmod", NO) ? REAL(chmod)(path, mode) : -1;
}
int fchmodat(int start, const char *path, mode_t mode, int flags) {
    return names(start, path, "chmod", NO) ? REAL(fchmodat)(start, path, mode, flags) : -1;
}
int truncate(const char *path, off_t size) {
    return names(AT_FDCWD, path, "truncate", NO) ? REAL(truncate)(path, size) : -1;
}
int truncate64(const char *path, off64_t size) {
    return names(AT_FDCWD, path, "truncate", NO) ? REAL(truncate64)(path, size) : -1;
}
