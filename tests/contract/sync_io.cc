#include "tests/contract/sync_io.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace dovetail::contract {

using engine::AppendRequest;
using engine::Engine;
using engine::FileRef;
using engine::ReadRequest;

Bytes Pattern(int64_t length, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(static_cast<size_t>(length));
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(&bytes[at], &word, std::min(sizeof(word), bytes.size() - at));
  }
  return bytes;
}

SliceChain ChainOf(const Bytes& bytes, size_t piece) {
  const auto owner = std::make_shared<Bytes>(bytes);
  SliceChain chain;
  for (size_t at = 0; at < bytes.size(); at += std::min(piece, bytes.size() - at)) {
    chain.push_back({owner, ConstBytes(*owner).subspan(at, std::min(piece, bytes.size() - at))});
  }
  return chain;
}

Bytes Flat(const SliceChain& chain) {
  Bytes bytes;
  for (const Slice& slice : chain)
    bytes.insert(bytes.end(), slice.bytes.begin(), slice.bytes.end());
  return bytes;
}

Pending<Result<FileRef>> StartOpen(Engine& engine, std::string path, bool create) {
  Pending<Result<FileRef>> pending;
  engine.Open(std::move(path), create, pending.Done());
  return pending;
}

Pending<Status> StartAppend(Engine& engine, AppendRequest request) {
  Pending<Status> pending;
  engine.Append(std::move(request), pending.Done());
  return pending;
}

Pending<Result<SliceChain>> StartRead(Engine& engine, ReadRequest request) {
  Pending<Result<SliceChain>> pending;
  engine.Read(std::move(request), pending.Done());
  return pending;
}

Result<FileRef> Open(Engine& engine, std::string path, bool create) {
  return StartOpen(engine, std::move(path), create).Wait();
}

Status Append(Engine& engine, AppendRequest request) {
  return StartAppend(engine, std::move(request)).Wait();
}

Result<Bytes> Read(Engine& engine, ReadRequest request) {
  const Result<SliceChain> chain = StartRead(engine, std::move(request)).Wait();
  if (!chain) return std::unexpected(chain.error());
  return Flat(*chain);
}

Status Reserve(Engine& engine, FileRef file, int64_t end) {
  Pending<Status> pending;
  engine.Reserve(std::move(file), end, pending.Done());
  return pending.Wait();
}

Status Truncate(Engine& engine, FileRef file, int64_t size) {
  Pending<Status> pending;
  engine.Truncate(std::move(file), size, pending.Done());
  return pending.Wait();
}

Status Remove(Engine& engine, std::string path) {
  Pending<Status> pending;
  engine.Remove(std::move(path), pending.Done());
  return pending.Wait();
}

Status RemoveFolder(Engine& engine, std::string path) {
  Pending<Status> pending;
  engine.RemoveFolder(std::move(path), pending.Done());
  return pending.Wait();
}

}  // namespace dovetail::contract
