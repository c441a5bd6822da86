#include "tests/e2e/judge/range_locks.h"

#include <algorithm>

namespace dovetail::judge {

RangeLocks::Held::~Held() {
  std::lock_guard lock(locks_.mutex_);
  locks_.held_.erase(entry_);
  locks_.changed_.notify_all();
}

bool RangeLocks::IsFree(const Held::Entry& wanted) const {
  return std::none_of(held_.begin(), held_.end(), [&](const Held::Entry& held) {
    const bool apart = held.range.end <= wanted.range.begin || wanted.range.end <= held.range.begin;
    return !apart && (held.kind == Kind::kExclusive || wanted.kind == Kind::kExclusive);
  });
}

RangeLocks::Held RangeLocks::Lock(Kind kind, const std::function<engine::ByteRange()>& range) {
  std::unique_lock lock(mutex_);
  Held::Entry entry{range(), kind};
  while (!IsFree(entry)) {
    changed_.wait(lock);
    entry.range = range();
  }
  return Held(*this, held_.insert(held_.end(), entry));
}

}  // namespace dovetail::judge
