#include "storage/index_cache.h"

#include <utility>

#include "engine/base/check.h"

namespace dovetail::storage {

IndexCache::~IndexCache() { DOVETAIL_CHECK(by_use_.empty() && figures_.bytes == 0); }

std::shared_ptr<IndexCache::Entry> IndexCache::Add(GroupHeads heads) {
  auto entry = std::make_shared<Entry>(*this, std::move(heads));
  std::vector<GroupHeads> dropped;  // freed outside the lock
  std::lock_guard lock(mutex_);
  entry->place_ = by_use_.insert(by_use_.end(), entry.get());
  ++figures_.entries;
  figures_.bytes += CostOf(entry->heads_);
  while (figures_.bytes > bytes_max_) {
    dropped.push_back(DropLocked(*by_use_.front()));
    ++figures_.evictions_total;
  }
  return entry;
}

GroupHeads IndexCache::DropLocked(Entry& entry) {
  by_use_.erase(entry.place_);
  --figures_.entries;
  figures_.bytes -= CostOf(entry.heads_);
  return std::exchange(entry.heads_, nullptr);
}

IndexCache::Entry::~Entry() {
  std::lock_guard lock(cache_.mutex_);
  if (heads_) cache_.DropLocked(*this);
}

GroupHeads IndexCache::Entry::Get() {
  std::lock_guard lock(cache_.mutex_);
  if (!heads_) {
    ++cache_.figures_.misses_total;
    return nullptr;
  }
  ++cache_.figures_.hits_total;
  cache_.by_use_.splice(cache_.by_use_.end(), cache_.by_use_, place_);
  return heads_;
}

IndexCache::Figures IndexCache::figures() const {
  std::lock_guard lock(mutex_);
  return figures_;
}

}  // namespace dovetail::storage
