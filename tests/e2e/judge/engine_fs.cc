// A file system whose files are files of a disk engine, so that anybody's test of a file system is
// a test of the engine. Every write that reaches it is an Append, every read a Read (or ToPipe),
// truncate is Truncate and fallocate Reserve; engine_file.h says how. Folders and names that
// already are there are looked at below it, for the engine lists nothing.
//
//   engine_fs FOLDER MOUNT_POINT [options]; --help names them
//
// No page cache of the mount answers for it. Stays in the foreground; ends when it is unmounted,
// with one line of key=value for each thing that was counted: "engine_fs: engine=io_uring ...".
// Exit code 0 when nothing failed. fsync does nothing, for engines offer none.
//
// Threads: libfuse's, and the engine's.
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <fmt/format.h>
#include <fuse.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tests/e2e/judge/engine_file.h"
#include "tests/e2e/judge/judged_engine.h"

namespace dovetail::judge {
namespace {

constexpr unsigned kThreadsMax = 64;

using EngineFileRef = std::shared_ptr<EngineFile>;

struct FileSystem {
  std::string folder;
  FileSystemState& state;
  std::mutex mutex = {};
  // By name; each from its first use to its removal. Guarded by mutex.
  std::map<std::string, EngineFileRef> files = {};
};

FileSystem* g_file_system = nullptr;

std::string Real(const char* path) { return g_file_system->folder + path; }

// For what is done below the engine.
int ResultOf(int result) { return result < 0 ? -errno : 0; }

EngineFile& FileOf(const fuse_file_info* info) {
  return **reinterpret_cast<EngineFileRef*>(info->fh);
}

class AtOnce {
 public:
  AtOnce() {
    FileCounts& counts = g_file_system->state.counts;
    const int64_t now = ++counts.at_once;
    int64_t most = counts.at_once_max.load();
    while (most < now && !counts.at_once_max.compare_exchange_weak(most, now)) {
    }
  }
  ~AtOnce() { --g_file_system->state.counts.at_once; }
  AtOnce(const AtOnce&) = delete;
  AtOnce& operator=(const AtOnce&) = delete;
};

// Opened before or opened now. Negative errno otherwise.
int Find(const std::string& name, bool create, EngineFileRef& out) {
  std::lock_guard lock(g_file_system->mutex);
  EngineFileRef& file = g_file_system->files[name];
  if (file == nullptr) {
    if (const int error = OpenFile(g_file_system->state, g_file_system->folder, name, create, file);
        error < 0) {
      g_file_system->files.erase(name);
      return error;
    }
  }
  out = file;
  return 0;
}

// Nothing is made for a name that nobody has opened yet.
EngineFileRef FindOpen(const std::string& name) {
  std::lock_guard lock(g_file_system->mutex);
  const auto found = g_file_system->files.find(name);
  return found != g_file_system->files.end() ? found->second : nullptr;
}

void* Init(fuse_conn_info* connection, fuse_config* config) {
  connection->max_background = kThreadsMax;
  // Removed files stay open; nothing is remembered here or in the kernel.
  config->hard_remove = 1;
  config->entry_timeout = 0;
  config->attr_timeout = 0;
  config->negative_timeout = 0;
  return nullptr;
}

int GetAttributes(const char* path, struct stat* out, fuse_file_info* info) {
  const EngineFileRef file =
      info != nullptr ? *reinterpret_cast<EngineFileRef*>(info->fh) : FindOpen(path + 1);
  if (const int error = ResultOf(lstat(Real(path).c_str(), out)); error < 0) return error;
  if (file != nullptr) out->st_size = file->size();
  return 0;
}

int OpenAs(const char* path, bool create, fuse_file_info* info) {
  EngineFileRef file;
  if (const int error = Find(path + 1, create, file); error < 0) return error;
  info->fh = reinterpret_cast<uint64_t>(new EngineFileRef(std::move(file)));
  info->direct_io = 1;
  return 0;
}

int Open(const char* path, fuse_file_info* info) { return OpenAs(path, false, info); }

int Create(const char* path, mode_t, fuse_file_info* info) { return OpenAs(path, true, info); }

int Release(const char*, fuse_file_info* info) {
  delete reinterpret_cast<EngineFileRef*>(info->fh);
  return 0;
}

int Read(const char*, char* to, size_t bytes, off_t offset, fuse_file_info* info) {
  const AtOnce counted;
  const std::span<char> out(to, bytes);
  return static_cast<int>(FileOf(info).Read(offset, std::as_writable_bytes(out)));
}

int Write(const char*, const char* from, size_t bytes, off_t offset, fuse_file_info* info) {
  const AtOnce counted;
  const std::span<const char> data(from, bytes);
  return static_cast<int>(FileOf(info).Write(offset, std::as_bytes(data)));
}

int Allocate(const char*, int mode, off_t offset, off_t bytes, fuse_file_info* info) {
  const AtOnce counted;
  if ((mode & ~FALLOC_FL_KEEP_SIZE) != 0) return -EOPNOTSUPP;
  return FileOf(info).Reserve(offset + bytes, (mode & FALLOC_FL_KEEP_SIZE) == 0);
}

int Truncate(const char* path, off_t size, fuse_file_info* info) {
  const AtOnce counted;
  if (info != nullptr) return FileOf(info).Truncate(size);
  EngineFileRef file;
  if (const int error = Find(path + 1, false, file); error < 0) return error;
  return file->Truncate(size);
}

int Synchronize(const char*, int, fuse_file_info*) { return 0; }

int RemoveFile(const char* path) {
  std::lock_guard lock(g_file_system->mutex);
  g_file_system->files.erase(path + 1);
  return judge::RemoveFile(g_file_system->state, path + 1);
}

int Space(const char* path, struct statvfs* out) {
  return ResultOf(statvfs(Real(path).c_str(), out));
}

int List(const char* path, void* buffer, fuse_fill_dir_t fill, off_t, fuse_file_info*,
         fuse_readdir_flags) {
  DIR* folder = opendir(Real(path).c_str());
  if (folder == nullptr) return -errno;
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
  operations.unlink = RemoveFile;
  operations.statfs = Space;
  operations.readdir = List;
  return operations;
}

// Until it is unmounted.
bool Serve(const char* program, const std::string& mount_point) {
  std::string name = program;
  char* arguments_text[] = {name.data(), nullptr};
  fuse_args arguments{1, arguments_text, 0};
  const fuse_operations operations = Operations();
  fuse* file_system = fuse_new(&arguments, &operations, sizeof(operations), nullptr);
  fuse_opt_free_args(&arguments);  // fuse_new has added to them
  if (file_system == nullptr || fuse_mount(file_system, mount_point.c_str()) != 0) return false;
  fuse_loop_config* config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_max_threads(config, kThreadsMax);
  fuse_loop_cfg_set_idle_threads(config, kThreadsMax);
  const int ended = fuse_loop_mt(file_system, config);
  fuse_loop_cfg_destroy(config);
  fuse_unmount(file_system);
  fuse_destroy(file_system);
  return ended == 0;
}

int Run(const char* program, const std::string& folder, const std::string& mount_point,
        const JudgedOptions& options) {
  JudgedEngine judged(folder, options);
  if (!judged.started()) return 1;
  FileSystem file_system{.folder = folder, .state = judged.state()};
  g_file_system = &file_system;
  bool good = Serve(program, mount_point);
  for (const auto& [name, file] : file_system.files) good = file->Settle() == 0 && good;
  file_system.files.clear();
  good = judged.Stop() && good;
  fmt::print("engine_fs: {}\n", judged.Summary());
  return good && judged.state().counts.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace dovetail::judge

int main(int argc, char** argv) {
  namespace judge = dovetail::judge;
  std::string folder;
  std::string mount_point;
  judge::JudgedOptions options;
  CLI::App app("A file system whose files are files of a disk engine.");
  app.add_option("FOLDER", folder, "where the engine keeps them")->required();
  app.add_option("MOUNT_POINT", mount_point, "an empty folder")->required();
  app.add_option("--engine", options.engine)->check(CLI::IsMember({"io_uring", "pool"}));
  app.add_option("--writes", options.writes)->check(CLI::IsMember({"direct", "buffered"}));
  app.add_option("--reads", options.reads)
      ->check(CLI::IsMember({"direct", "buffered", "pipe", "mixed"}));
  app.add_option("--descriptors", options.descriptors_max, "kept open at once; 0: all");
  app.add_option("--faults", options.faults_seed,
                 "a seed: requests of the rings that are short, refused for the moment, late and "
                 "out of order; 0: none");
  CLI11_PARSE(app, argc, argv);
  umask(0);
  return judge::Run(argv[0], folder, mount_point, options);
}
