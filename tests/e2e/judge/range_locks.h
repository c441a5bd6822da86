// Who works on which bytes of a file: any number of readers, or one writer.
//
// Threads: any; Lock blocks. Outlives what it gave out.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>

#include "engine/memory_pieces.h"

namespace dovetail::judge {

class RangeLocks {
 public:
  enum class Kind { kShared, kExclusive };

  // Lets go at its end.
  class Held {
   public:
    ~Held();
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    friend class RangeLocks;
    struct Entry {
      engine::ByteRange range;
      Kind kind;
    };
    Held(RangeLocks& locks, std::list<Entry>::iterator entry) : locks_(locks), entry_(entry) {}

    RangeLocks& locks_;
    const std::list<Entry>::iterator entry_;
  };

  // range: asked for again whenever somebody lets go, as it may depend on what he did. It must ask
  // for no lock itself.
  [[nodiscard]] Held Lock(Kind kind, const std::function<engine::ByteRange()>& range);

 private:
  bool IsFree(const Held::Entry& wanted) const;  // REQUIRES mutex_

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Held::Entry> held_;  // guarded by mutex_
};

}  // namespace dovetail::judge
