#include "storage/read_budget.h"

#include <utility>

#include "engine/base/check.h"

namespace dovetail::storage {

ReadGrant::~ReadGrant() { budget_.Return(bytes_); }

ReadBudget::ReadBudget(int64_t bytes_max, AdmissionQueue::Options options, Executor& executor,
                       Ticker& ticker)
    : bytes_max_(bytes_max),
      queue_(
          options, [this](int64_t bytes) { return TryTake(bytes); }, executor, ticker) {}

ReadBudget::~ReadBudget() { DOVETAIL_CHECK(bytes_in_flight_ == 0); }

void ReadBudget::Acquire(int64_t bytes, Done done) {
  DOVETAIL_CHECK(bytes > 0);
  queue_.Ask(bytes, [this, bytes, done = std::move(done)](Status status) mutable {
    if (!status) {
      done(std::unexpected(status.error()));
      return;
    }
    done(std::make_shared<ReadGrant>(*this, bytes));
  });
}

bool ReadBudget::TryTake(int64_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes_in_flight_ > 0 && bytes > bytes_max_ - bytes_in_flight_) return false;
  bytes_in_flight_ += bytes;
  return true;
}

void ReadBudget::Return(int64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    DOVETAIL_CHECK(bytes_in_flight_ >= bytes);
    bytes_in_flight_ -= bytes;
  }
  queue_.OnRoom();
}

int64_t ReadBudget::bytes_in_flight() const {
  std::lock_guard lock(mutex_);
  return bytes_in_flight_;
}

}  // namespace dovetail::storage
