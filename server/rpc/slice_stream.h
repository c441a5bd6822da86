// The bytes of a message where gRPC put them, as protobuf reads them: nothing is copied.
//
// Threads: one at a time. Lifetime: the slices outlive the stream and what it handed out.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/result.h"

namespace dovetail::server {

// The slices of a message, without empty ones. kInvalid: gRPC could not hand them out.
inline Result<std::vector<grpc::Slice>> SlicesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return Fail(ErrorCode::kInvalid, "message");
  std::erase_if(slices, [](const grpc::Slice& slice) { return slice.size() == 0; });
  return slices;
}

class SliceStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  // No slice may be empty.
  explicit SliceStream(const std::vector<grpc::Slice>& slices) : slices_(slices) {}

  bool Next(const void** data, int* size) override {
    if (next_ == slices_.size()) return false;
    const grpc::Slice& slice = slices_[next_++];
    *data = slice.begin() + skip_;
    *size = static_cast<int>(slice.size() - skip_);
    skip_ = 0;
    count_ += *size;
    return true;
  }

  void BackUp(int count) override {
    --next_;
    skip_ = slices_[next_].size() - static_cast<size_t>(count);
    count_ -= count;
  }

  bool Skip(int count) override {
    const void* data = nullptr;
    int size = 0;
    while (count > 0 && Next(&data, &size)) {
      if (size > count) BackUp(size - count);
      count -= std::min(size, count);
    }
    return count == 0;
  }

  int64_t ByteCount() const override { return count_; }

 private:
  const std::vector<grpc::Slice>& slices_;
  size_t next_ = 0;
  size_t skip_ = 0;  // bytes of slice next_ that were taken already
  int64_t count_ = 0;
};

}  // namespace dovetail::server
