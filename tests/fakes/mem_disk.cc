#include "tests/fakes/mem_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "engine/data_folder.h"
#include "engine/errno.h"

namespace dovetail::fakes {

using engine::DataFolder;
using engine::FailErrno;

MemDisk::MemDisk(MemDiskOptions options) : options_(options) {}
MemDisk::~MemDisk() = default;

Result<MemDisk::InodeRef> MemDisk::Open(const std::string& path, bool create) {
  if (!DataFolder::IsValidPath(path)) return Fail(ErrorCode::kInvalid, "open: path");
  std::lock_guard lock(mutex_);
  const auto found = files_.find(path);
  if (!create) {
    if (found == files_.end()) return FailErrno("open", ENOENT);
    return found->second;
  }
  if (found != files_.end() || folders_.contains(path)) return FailErrno("open", EEXIST);
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    if (files_.contains(path.substr(0, slash))) return FailErrno("open", ENOTDIR);
    folders_.insert(path.substr(0, slash));
  }
  return files_.emplace(path, std::make_shared<Inode>()).first->second;
}

int64_t MemDisk::UsedBytes() const {
  int64_t used = 0;
  const auto add = [&](const Inode& file) {
    used += std::max(file.written_end, file.reserved_end);
  };
  for (const auto& [path, file] : files_) add(*file);
  std::erase_if(nameless_, [](const auto& file) { return file.expired(); });
  for (const auto& weak : nameless_) {
    if (const InodeRef file = weak.lock()) add(*file);
  }
  return used;
}

bool MemDisk::Fits(const Inode& file, int64_t end) const {
  if (options_.capacity_bytes == std::numeric_limits<int64_t>::max()) return true;
  const int64_t now = std::max(file.written_end, file.reserved_end);
  return end <= now || end - now <= options_.capacity_bytes - UsedBytes();
}

void MemDisk::Cut(Inode& file, int64_t size) {
  file.written_end = std::min(file.written_end, size);
  file.reserved_end = std::min(file.reserved_end, size);
  file.pages.erase(file.pages.lower_bound((size + kPageBytes - 1) / kPageBytes), file.pages.end());
}

void MemDisk::Store(Inode& file, int64_t offset, ConstBytes bytes) {
  if (!options_.keeps_bytes) return;
  while (!bytes.empty()) {
    auto& page = file.pages[offset / kPageBytes];
    if (page == nullptr) page = std::make_unique<Page>();
    const int64_t at = offset % kPageBytes;
    const size_t step = std::min(bytes.size(), static_cast<size_t>(kPageBytes - at));
    std::memcpy(page->data() + at, bytes.data(), step);
    bytes = bytes.subspan(step);
    offset += static_cast<int64_t>(step);
  }
}

void MemDisk::Load(const Inode& file, int64_t offset, std::byte* out, int64_t length) const {
  while (length > 0) {
    const int64_t at = offset % kPageBytes;
    const int64_t step = std::min(length, kPageBytes - at);
    const auto page = file.pages.find(offset / kPageBytes);
    if (page == file.pages.end()) {
      std::memset(out, 0, static_cast<size_t>(step));
    } else {
      std::memcpy(out, page->second->data() + at, static_cast<size_t>(step));
    }
    out += step;
    offset += step;
    length -= step;
  }
}

Status MemDisk::Write(Inode& file, int64_t offset, const SliceChain& data) {
  std::lock_guard lock(mutex_);
  int64_t end = offset;
  for (const Slice& slice : data) end += static_cast<int64_t>(slice.bytes.size());
  if (!Fits(file, end)) {
    Cut(file, offset);
    return FailErrno("append", ENOSPC);
  }
  for (const Slice& slice : data) {
    Store(file, offset, slice.bytes);
    offset += static_cast<int64_t>(slice.bytes.size());
  }
  file.written_end = std::max(file.written_end, end);
  return {};
}

void MemDisk::WriteTorn(Inode& file, int64_t offset, const SliceChain& data, int64_t bytes) {
  std::lock_guard lock(mutex_);
  for (const Slice& slice : data) {
    const int64_t step = std::min(bytes, static_cast<int64_t>(slice.bytes.size()));
    if (step == 0) continue;
    Store(file, offset, slice.bytes.first(static_cast<size_t>(step)));
    offset += step;
    bytes -= step;
    file.written_end = std::max(file.written_end, offset);
  }
}

Result<SliceChain> MemDisk::Read(Inode& file, int64_t offset, int64_t length) {
  std::lock_guard lock(mutex_);
  if (offset + length > file.written_end) return Fail(ErrorCode::kCorrupt, "end");
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(length));
  Load(file, offset, bytes->data(), length);
  const ConstBytes view(*bytes);
  return SliceChain{{std::move(bytes), view}};
}

Status MemDisk::Reserve(Inode& file, int64_t end) {
  std::lock_guard lock(mutex_);
  if (!Fits(file, end)) return FailErrno("reserve", ENOSPC);
  file.reserved_end = std::max(file.reserved_end, end);
  return {};
}

Status MemDisk::Truncate(Inode& file, int64_t size) {
  std::lock_guard lock(mutex_);
  if (size > file.written_end) return Fail(ErrorCode::kInvalid, "truncate");
  Cut(file, size);
  return {};
}

Status MemDisk::Remove(const std::string& path) {
  if (!DataFolder::IsValidPath(path)) return Fail(ErrorCode::kInvalid, "remove");
  std::lock_guard lock(mutex_);
  if (folders_.contains(path)) return FailErrno("remove", EISDIR);
  const auto found = files_.find(path);
  if (found == files_.end()) return {};
  nameless_.push_back(found->second);
  files_.erase(found);
  return {};
}

Status MemDisk::RemoveFolder(const std::string& path) {
  if (!DataFolder::IsValidPath(path)) return Fail(ErrorCode::kInvalid, "remove folder");
  std::lock_guard lock(mutex_);
  if (files_.contains(path)) return FailErrno("remove folder", ENOTDIR);
  const std::string prefix = path + "/";
  const auto file = files_.lower_bound(prefix);
  const auto folder = folders_.lower_bound(prefix);
  const bool empty = (file == files_.end() || !file->first.starts_with(prefix)) &&
                     (folder == folders_.end() || !folder->starts_with(prefix));
  if (empty) folders_.erase(path);
  return {};
}

void MemDisk::SetCapacity(int64_t bytes) {
  std::lock_guard lock(mutex_);
  options_.capacity_bytes = bytes;
}

int64_t MemDisk::used_bytes() const {
  std::lock_guard lock(mutex_);
  return UsedBytes();
}

std::vector<std::string> MemDisk::Files() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  for (const auto& [path, file] : files_) paths.push_back(path);
  return paths;
}

std::vector<std::string> MemDisk::Folders() const {
  std::lock_guard lock(mutex_);
  return {folders_.begin(), folders_.end()};
}

std::vector<std::byte> MemDisk::Contents(const std::string& path) const {
  std::lock_guard lock(mutex_);
  const auto found = files_.find(path);
  DOVETAIL_CHECK(found != files_.end());
  std::vector<std::byte> bytes(static_cast<size_t>(found->second->written_end));
  Load(*found->second, 0, bytes.data(), found->second->written_end);
  return bytes;
}

void MemDisk::FlipByte(const std::string& path, int64_t offset) {
  std::lock_guard lock(mutex_);
  const auto found = files_.find(path);
  DOVETAIL_CHECK(found != files_.end() && offset < found->second->written_end);
  std::byte byte{};
  Load(*found->second, offset, &byte, 1);
  byte = ~byte;
  Store(*found->second, offset, {&byte, 1});
}

void MemDisk::LoseNames() {
  std::lock_guard lock(mutex_);
  for (const auto& [path, file] : files_) nameless_.push_back(file);
  files_.clear();
  folders_.clear();
}

engine::SpaceInfo MemDisk::Space() const {
  std::lock_guard lock(mutex_);
  return {.total_bytes = options_.capacity_bytes,
          .free_bytes = std::max<int64_t>(0, options_.capacity_bytes - UsedBytes())};
}

}  // namespace dovetail::fakes
