// A file system for tests: passes everything through to a folder, late, never or with errors, as
// the first line of a control file says at the moment of each operation:
//
//   ok                 as it is
//   delay <ms>         every operation begins so much later
//   hang               every operation waits until the line is another one
//   fail_read <errno>  reads fail
//   fail_write <errno> writes, reservations and whatever makes a name fail
//
// usage: fault_fs FOLDER MOUNT_POINT CONTROL_FILE
// Stays in the foreground; ends when it is unmounted. Threads: libfuse's.
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <fcntl.h>
#include <fuse.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

namespace {

constexpr unsigned kThreadsMax = 64;
constexpr std::chrono::milliseconds kPoll{10};

std::string g_folder;
std::string g_control;

enum class Kind { kRead, kWrite, kOther };

struct Mode {
  std::string name = "ok";
  int number = 0;
};

Mode ReadMode() {
  Mode mode;
  std::ifstream(g_control) >> mode.name >> mode.number;
  return mode;
}

// Waits as the mode says. 0, or the negative errno that the operation ends with.
int Meet(Kind kind) {
  Mode mode = ReadMode();
  while (mode.name == "hang") {
    std::this_thread::sleep_for(kPoll);
    mode = ReadMode();
  }
  if (mode.name == "delay") std::this_thread::sleep_for(std::chrono::milliseconds(mode.number));
  const bool fails = (mode.name == "fail_read" && kind == Kind::kRead) ||
                     (mode.name == "fail_write" && kind == Kind::kWrite);
  return fails ? -mode.number : 0;
}

std::string Real(const char* path) { return g_folder + path; }

template <class Call>
int Do(Kind kind, Call call) {
  if (const int refused = Meet(kind); refused < 0) return refused;
  const auto result = call();
  return result < 0 ? -errno : static_cast<int>(result);
}

int Descriptor(const fuse_file_info* info) { return static_cast<int>(info->fh); }

void* Init(fuse_conn_info*, fuse_config* config) {
  // Removed files stay open below their descriptors; nothing is remembered here or in the kernel.
  config->hard_remove = 1;
  config->entry_timeout = 0;
  config->attr_timeout = 0;
  config->negative_timeout = 0;
  return nullptr;
}

int GetAttributes(const char* path, struct stat* out, fuse_file_info* info) {
  return Do(Kind::kOther,
            [&] { return info ? fstat(Descriptor(info), out) : lstat(Real(path).c_str(), out); });
}

int OpenAs(const char* path, int flags, mode_t mode, Kind kind, fuse_file_info* info) {
  const int fd = Do(kind, [&] { return open(Real(path).c_str(), flags, mode); });
  if (fd < 0) return fd;
  info->fh = static_cast<uint64_t>(fd);
  info->direct_io = 1;  // no page cache: every read comes here
  return 0;
}

// Alignment is the caller's business with the mount, not ours with the folder.
int FlagsOf(const fuse_file_info* info) { return (info->flags & ~O_DIRECT) | O_CLOEXEC; }

int Open(const char* path, fuse_file_info* info) {
  return OpenAs(path, FlagsOf(info), 0, Kind::kOther, info);
}

int Create(const char* path, mode_t mode, fuse_file_info* info) {
  return OpenAs(path, FlagsOf(info) | O_CREAT, mode, Kind::kWrite, info);
}

int Read(const char*, char* to, size_t bytes, off_t offset, fuse_file_info* info) {
  return Do(Kind::kRead, [&] { return pread(Descriptor(info), to, bytes, offset); });
}

int Write(const char*, const char* from, size_t bytes, off_t offset, fuse_file_info* info) {
  return Do(Kind::kWrite, [&] { return pwrite(Descriptor(info), from, bytes, offset); });
}

int Allocate(const char*, int mode, off_t offset, off_t bytes, fuse_file_info* info) {
  return Do(Kind::kWrite, [&] { return fallocate(Descriptor(info), mode, offset, bytes); });
}

int Truncate(const char* path, off_t size, fuse_file_info* info) {
  return Do(Kind::kOther, [&] {
    return info ? ftruncate(Descriptor(info), size) : truncate(Real(path).c_str(), size);
  });
}

int Synchronize(const char*, int, fuse_file_info* info) {
  return Do(Kind::kWrite, [&] { return fsync(Descriptor(info)); });
}

int Release(const char*, fuse_file_info* info) { return close(Descriptor(info)); }

int MakeFolder(const char* path, mode_t mode) {
  return Do(Kind::kWrite, [&] { return mkdir(Real(path).c_str(), mode); });
}

int RemoveFile(const char* path) {
  return Do(Kind::kOther, [&] { return unlink(Real(path).c_str()); });
}

int RemoveFolder(const char* path) {
  return Do(Kind::kOther, [&] { return rmdir(Real(path).c_str()); });
}

int Rename(const char* from, const char* to, unsigned) {
  return Do(Kind::kWrite, [&] { return rename(Real(from).c_str(), Real(to).c_str()); });
}

int Space(const char* path, struct statvfs* out) {
  return Do(Kind::kOther, [&] { return statvfs(Real(path).c_str(), out); });
}

int List(const char* path, void* buffer, fuse_fill_dir_t fill, off_t, fuse_file_info*,
         fuse_readdir_flags) {
  if (const int refused = Meet(Kind::kOther); refused < 0) return refused;
  DIR* folder = opendir(Real(path).c_str());
  if (!folder) return -errno;
  while (const dirent* entry = readdir(folder)) {
    fill(buffer, entry->d_name, nullptr, 0, static_cast<fuse_fill_dir_flags>(0));
  }
  closedir(folder);
  return 0;
}

fuse_operations Operations() {
  fuse_operations operations{};
  operations.init = Init;
  operations.getattr = GetAttributes;
  operations.open = Open;
  operations.create = Create;
  operations.read = Read;
  operations.write = Write;
  operations.fallocate = Allocate;
  operations.truncate = Truncate;
  operations.fsync = Synchronize;
  operations.release = Release;
  operations.mkdir = MakeFolder;
  operations.unlink = RemoveFile;
  operations.rmdir = RemoveFolder;
  operations.rename = Rename;
  operations.statfs = Space;
  operations.readdir = List;
  return operations;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: fault_fs FOLDER MOUNT_POINT CONTROL_FILE\n");
    return 2;
  }
  g_folder = argv[1];
  g_control = argv[3];
  umask(0);
  const fuse_operations operations = Operations();
  char* name[] = {argv[0], nullptr};
  fuse_args arguments{1, name, 0};
  fuse* file_system = fuse_new(&arguments, &operations, sizeof(operations), nullptr);
  if (!file_system || fuse_mount(file_system, argv[2]) != 0) return 1;
  fuse_loop_config* config = fuse_loop_cfg_create();
  // A thread for each operation that may hang at once, and more.
  fuse_loop_cfg_set_max_threads(config, kThreadsMax);
  const int ended = fuse_loop_mt(file_system, config);
  fuse_loop_cfg_destroy(config);
  fuse_unmount(file_system);
  fuse_destroy(file_system);
  return ended == 0 ? 0 : 1;
}
